//! What can go wrong between ranks.

use thiserror::Error;

/// An error of a call between ranks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RankError {
    /// A rank has ended, or no longer answers: the run cannot continue.
    #[error("rank {rank} on {host}: {reason}")]
    Lost {
        /// Its number.
        rank: usize,
        /// Its host.
        host: String,
        /// How it is known, or the line that it ended with.
        reason: String,
    },
    /// The ranks cannot be connected.
    #[error("{what}: {reason}")]
    Start {
        /// The file or the variable.
        what: String,
        /// The system's message.
        reason: String,
    },
    /// A message of another length than expected: two ranks are not at the same call.
    #[error("rank {rank} on {host}: a message of {found} bytes, expected {expected}")]
    Length {
        /// The rank that it came from.
        rank: usize,
        /// Its host.
        host: String,
        /// Its bytes.
        found: usize,
        /// The bytes that the call expects.
        expected: usize,
    },
    /// A message that is longer than any of its kind: the ranks are not at the same call, or a bit has changed.
    #[error("rank {rank} on {host}: a message of {found} bytes, expected at most {most}")]
    TooLong {
        /// The rank that it came from.
        rank: usize,
        /// Its host.
        host: String,
        /// Its bytes, as it says.
        found: u64,
        /// The most bytes of this kind.
        most: u64,
    },
    /// A message that says something else than the call expects.
    #[error("rank {rank} on {host}: {what}")]
    Confused {
        /// The rank that it came from.
        rank: usize,
        /// Its host.
        host: String,
        /// What is wrong.
        what: String,
    },
}

impl RankError {
    /// Makes a [`RankError::Start`].
    pub(crate) fn start(what: impl ToString, reason: impl ToString) -> Self {
        Self::Start {
            what: what.to_string(),
            reason: reason.to_string(),
        }
    }
}
