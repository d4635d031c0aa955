//! The verbs that tell about runs: report, compare, list and watch.

pub mod compare;
pub mod list;
pub mod report;
pub mod watch;
