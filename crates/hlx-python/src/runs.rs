//! Runs: training by a configuration, what a run folder holds, its verification and its audit.

mod auditing;
mod folder;
mod training;
mod verifying;
mod worker;

pub use auditing::{check_audit, new_key, start_audit};
pub use folder::{
    EventWriter, plot_runs, run_chain, run_checkpoints, run_config, run_facts, run_metrics,
};
pub use training::start_training;
pub use verifying::start_verification;
pub use worker::PyRunWorker;
