//! Runs: training by a configuration, what a run folder holds, and its verification.
