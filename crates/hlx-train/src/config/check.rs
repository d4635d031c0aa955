//! What a configuration's values may be.

use super::{Config, ModelSection, TrainSection};

/// A value that may not be: its key and why.
pub(super) struct Fault {
    pub key: &'static str,
    pub reason: String,
}

type Checked = Result<(), Fault>;

fn fault(key: &'static str, reason: impl Into<String>) -> Checked {
    Err(Fault {
        key,
        reason: reason.into(),
    })
}

/// Fails unless the value is finite and inside `[low, high)`.
fn within(key: &'static str, value: f64, low: f64, high: f64) -> Checked {
    if value >= low && value < high {
        return Ok(());
    }
    let limit = if high == f64::INFINITY {
        String::new()
    } else {
        format!(" and below {high}")
    };
    fault(key, format!("{value} is not at least {low}{limit}"))
}

fn at_least_one(key: &'static str, value: u64) -> Checked {
    if value == 0 {
        fault(key, "0 is not at least 1")
    } else {
        Ok(())
    }
}

impl Config {
    /// Checks a resolved configuration; the first fault is returned.
    pub(super) fn check(&self) -> Checked {
        self.model.check()?;
        if self.data.path.is_empty() {
            return fault("data.path", "names no file");
        }
        within("data.eval_fraction", self.data.eval_fraction, 0.0, 1.0)?;
        self.train.check()
    }
}

impl ModelSection {
    fn check(&self) -> Checked {
        let sizes = [
            ("model.width", self.width),
            ("model.n_layers", self.n_layers),
            ("model.n_heads", self.n_heads),
            ("model.feed_forward_width", self.feed_forward_width),
            ("model.positions", self.positions),
        ];
        // Far above what any device holds, and far below what overflows a product of sizes.
        const LARGEST: usize = 1 << 20;
        for (key, size) in sizes {
            match size {
                None => return fault(key, "is missing, and there is no model.preset to give it"),
                Some(0) => return fault(key, "0 is not at least 1"),
                Some(size) if size > LARGEST => {
                    return fault(key, format!("{size} is more than {LARGEST}"));
                }
                Some(_) => {}
            }
        }
        if let (Some(width), Some(n_heads)) = (self.width, self.n_heads) {
            if !width.is_multiple_of(n_heads) {
                return fault(
                    "model.n_heads",
                    format!("{n_heads} does not divide width {width}"),
                );
            }
            if width / n_heads > 128 {
                return fault(
                    "model.n_heads",
                    format!("{n_heads} heads of {} are wider than 128", width / n_heads),
                );
            }
        }
        within("model.dropout", self.dropout, 0.0, 1.0)
    }
}

impl TrainSection {
    fn check(&self) -> Checked {
        if self.epochs.is_none() && self.max_steps.is_none() {
            return fault(
                "train.epochs",
                "is missing: it or train.max_steps ends the run",
            );
        }
        at_least_one("train.epochs", self.epochs.unwrap_or(1))?;
        at_least_one("train.max_steps", self.max_steps.unwrap_or(1))?;
        at_least_one("train.log_every", self.log_every)?;
        at_least_one("train.keep", self.keep as u64)?;
        self.check_batches()?;
        let unlimited = f64::INFINITY;
        within("train.learning_rate", self.learning_rate, 0.0, unlimited)?;
        within("train.weight_decay", self.weight_decay(), 0.0, unlimited)?;
        within("train.clip_norm", self.clip_norm, 0.0, unlimited)?;
        within("train.label_smoothing", self.label_smoothing, 0.0, 1.0)?;
        within(
            "train.target_loss",
            self.target_loss.unwrap_or(0.0),
            0.0,
            unlimited,
        )
    }

    /// A micro-batch is a whole part of a shard, or holds whole shards, so that the gradient's
    /// tree over the shards stays what it is.
    fn check_batches(&self) -> Checked {
        let batch = self.batch_size;
        at_least_one("train.batch_size", batch as u64)?;
        let shards = self.shards.unwrap_or(1);
        if !shards.is_power_of_two() || shards > 64 || !batch.is_multiple_of(shards) {
            return fault(
                "train.shards",
                format!("{shards} is not a power of two up to 64 that divides batch_size {batch}"),
            );
        }
        let micro = self.micro_batch_size.unwrap_or(batch);
        if micro == 0 || !batch.is_multiple_of(micro) {
            return fault(
                "train.micro_batch_size",
                format!("{micro} does not divide batch_size {batch}"),
            );
        }
        let shard = batch / shards;
        if !shard.is_multiple_of(micro) && !micro.is_multiple_of(shard) {
            return fault(
                "train.micro_batch_size",
                format!(
                    "{micro} neither divides a shard of {shard} samples nor holds whole shards"
                ),
            );
        }
        Ok(())
    }
}
