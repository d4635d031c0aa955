//! The run folder: what a run leaves on disk, and how it comes back.
//!
//! ```text
//! runs/NAME/
//!   config.toml      the configuration, every default filled in
//!   run.json         devices and versions, digests of configuration, corpus and shaders
//!   metrics.jsonl    one line a log period and an evaluation
//!   events.out.tfevents.*   the same for TensorBoard, a file a stretch
//!   chain.jsonl      one record a log period and a checkpoint, each naming the one before it
//!   verified.jsonl   one line a verification of the run, appended by `hlx verify`
//!   lock             locked while a process writes to the folder; lock-holder names it then
//!   checkpoints/
//!     step-000240/   model.safetensors, config.json, state.bin, digests.json,
//!                    schedule.bin of a schedule with a state, monitor.bin of a run that is
//!                    watched over (skipped steps, early stopping, the best checkpoint),
//!                    lora.json of a model with adapters
//! ```

mod chain;
mod checkpoint;
mod folder;
mod lock;
mod manifest;
mod metrics;
mod metrics_file;
mod monitor;
pub mod place;
mod schedule_state;
mod seal;
mod standing;
mod state;
mod tensorboard;

pub use chain::{
    Bits, CHAIN_FILE, Chain, ChainFile, ChainRecord, ChainSummary, Origin, ProvedRecord,
    tensor_digits,
};
pub use checkpoint::{Checkpoint, Digests, Retention, checkpoint_folder};
pub(crate) use checkpoint::{DIGESTS_FILE, joined, newest_with_finite_parameters};
pub use folder::{RunFolder, latest_folder};
pub use lock::RunLock;
pub use manifest::{Manifest, RankPlace, RunStretch, shaders_digest};
pub use metrics::{EvalSplit, ExchangeMetric, Metric};
pub use metrics_file::{MetricsFile, read_metrics, warn_of_damaged_lines};
pub use monitor::{MONITOR_FILE, Monitor};
pub use place::Place;
pub use schedule_state::SCHEDULE_FILE;
pub(crate) use schedule_state::{read_schedule_state, schedule_state_bytes};
pub use standing::Standing;
pub use state::{LossSum, Progress, STATE_FILE, State};
pub(crate) use state::{StateLayout, StatePlace};
pub use tensorboard::EventFile;

/// The checkpoint's file of the adapters' numbers; a model without adapters has none.
pub const LORA_FILE: &str = "lora.json";

/// The checkpoint's file of what its adapters stand over; a model whose base is in the checkpoint has none.
pub const BASE_FILE: &str = "base.json";

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::{FINITE_SINCE, SPECIFICATION, files};

/// The specification of runs made before [`SPECIFICATION`] was written down.
fn specification_before_numbers() -> u32 {
    1
}

/// Fails unless `what` follows this program's specification of the arithmetic, or one that differs from it
/// only where a value is not finite: bits of another can neither be continued nor compared.
///
/// # Errors
/// One line with both numbers.
pub(crate) fn check_specification(what: &Path, found: u32) -> Result<()> {
    ensure!(
        (FINITE_SINCE..=SPECIFICATION).contains(&found),
        "{}: follows specification {found} of the arithmetic, and this HLX follows \
         {SPECIFICATION}: an HLX of specification {found} is needed",
        what.display()
    );
    Ok(())
}

/// Replaces a file of the folder as one.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = files::write_atomically(path, bytes);
    written.with_context(|| format!("{}: cannot be written", path.display()))
}
