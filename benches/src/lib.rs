//! What the program `hlx-bench` and the criterion benchmarks share: the cases, how they are made
//! ready and timed, and the tables and plots that come of it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod cases;
pub mod exhaustive;
pub mod facts;
pub mod measure;
pub mod peer_table;
pub mod peers;
pub mod plot;
pub mod power;
pub mod prove;
pub mod report;
pub mod serve;
pub mod statistics;
pub mod step;
pub mod table;
pub mod work;
