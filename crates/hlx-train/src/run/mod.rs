//! The run folder: what a run leaves on disk, and how it comes back.
//!
//! ```text
//! runs/NAME/
//!   config.toml      the configuration, every default filled in
//!   run.json         profile, device, versions, digests of configuration, corpus and shaders
//!   metrics.jsonl    one line a log period and an evaluation
//!   chain.jsonl      one record a log period and a checkpoint, each naming the one before it
//!   checkpoints/
//!     step-000240/   model.safetensors, config.json, state.bin, digests.json
//! ```

mod chain;
mod checkpoint;
mod files;
mod folder;
mod manifest;
mod metrics;
mod state;

pub use chain::{Bits, CHAIN_FILE, Chain, ChainFile, Link, Origin, Record, tensor_digits};
pub use checkpoint::{Checkpoint, Digests, Retention};
pub(crate) use files::write_atomically;
pub use folder::{RunFolder, fresh_folder, latest_folder};
pub use manifest::{Manifest, Session, shaders_digest};
pub use metrics::{EvalSplit, Metric, MetricsFile, read_metrics};
pub use state::{LossSum, Progress, STATE_FILE, State};
