//! What the program `hlx-bench` and the criterion benchmark share: the cases, their preparation
//! and timing, and the tables and plots of the results.

mod attention;
pub mod axes;
pub mod cases;
pub mod causal;
pub mod causal_table;
pub mod chains;
pub mod convolution;
pub mod decode;
pub mod exhaustive;
pub mod facts;
mod integers;
pub mod maker;
pub mod measure;
pub mod norms;
pub mod peer_table;
pub mod peers;
mod picture;
pub mod plot;
pub mod power;
pub mod print;
pub mod profile;
pub mod prove;
pub mod rank_table;
pub mod recurrent;
pub mod report;
pub mod resnet;
pub mod serve;
pub mod side;
pub mod statistics;
pub mod step;
pub mod step_table;
pub mod strided;
pub mod table;
pub mod thresholds;
pub mod versus;
pub mod work;
