//! Receipts of answers: what they say ([`Body`]), how they are written ([`canonical`]), who has signed them
//! ([`SigningKey`]) and how they follow each other ([`Link`], [`check_chains`]).
//!
//! A receipt binds an answer to the model, the request and the seed that it is a function of. Its body is this
//! function's value: two servers on different devices that answer one request with one seed make the same body, byte
//! for byte. Link, information and signature are outside of it. `docs/receipts.md` has the format, member by member.
//!
//! A [`Certificate`] is what an audit of a run states, in a DSSE [`Envelope`]. `docs/audit.md` has its format.
//!
//! This crate knows no model: what recomputes an answer is in `hlx-train`.

mod audit;
mod body;
mod canonical;
mod chain;
mod digest;
mod envelope;
mod error;
mod format;
mod key;
mod number;
mod place;
mod receipt;

pub use audit::{
    Audit, AuditMethod, AuditWork, AuditedRun, AuditedSubject, Auditor, Certificate, Chance,
    Layout, MOST_CERTIFICATE_BYTES, MOST_SEED_BYTES, PASSED, PREDICATE_TYPE, SameStretches,
    chance_of_passing, check_seed, choose, random_seed,
};
pub use body::{Body, FinishReason, Grammar, GrammarKind, ModelDigests, NamedFile, Sampling};
pub use canonical::canonical;
pub use chain::{Chain, ChainFault, ChainFinding, check_chains};
pub use digest::{Sha256, StepDigest};
pub use envelope::Envelope;
pub use error::ReceiptError;
pub use format::{ALGORITHM, KIND, MOST_BYTES, VERSION};
pub use key::{PublicKey, SigningKey, public_path};
pub use number::{Whole, shortest};
pub use place::Place;
pub use receipt::{Information, Link, Receipt, Signature};

/// What functions of this crate return.
pub type Result<T, E = ReceiptError> = std::result::Result<T, E>;
