//! Certificates of audits: which stretches of a run were recomputed, how they were chosen, and how likely a forged run
//! would have passed.

mod chance;
mod choice;
mod layout;
mod statement;

pub use chance::{Chance, chance_of_passing};
pub use choice::{MOST_SEED_BYTES, check_seed, choose, random_seed};
pub use layout::{Layout, SameStretches};
pub use statement::{
    Audit, AuditMethod, AuditWork, AuditedRun, AuditedSubject, Auditor, Certificate,
    MOST_CERTIFICATE_BYTES, PASSED, PREDICATE_TYPE,
};
