//! The seam between collective calls and what carries their bytes.

use crate::{RankError, Result};

/// Carries bytes between two ranks.
pub trait Transport: Send + Sync {
    /// The number of this rank.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn n_ranks(&self) -> usize;

    /// The host of a rank.
    fn host(&self, rank: usize) -> String;

    /// Sends `out` to a rank and receives `into.len()` bytes from it, both at once; the other rank calls
    /// it with this one and the lengths swapped.
    ///
    /// # Errors
    /// [`RankError::Lost`] as soon as any rank is known to have ended, and [`RankError::Length`].
    fn swap(&self, peer: usize, out: &[u8], into: &mut [u8]) -> Result<()>;

    /// Whether it is meant for the words of gradients and parameters; one that is not carries what ranks
    /// agree on alone.
    fn carries_data(&self) -> bool;

    /// The number of this rank among those of its host, where a launcher has said it.
    fn local_rank(&self) -> Option<usize> {
        None
    }

    /// Tells all ranks that this one ends with an error, in one line; their calls fail with it.
    fn fail(&self, line: &str);

    /// Tells all ranks that this one ends as it should: no call comes after it.
    fn leave(&self);

    /// The rank that was lost first, if one is.
    fn lost(&self) -> Option<RankError>;
}

/// The name of this host.
pub fn host_name() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}
