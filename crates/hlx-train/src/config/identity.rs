//! Which configurations are the same run: its digest, and what a resumed run may change.

use std::collections::{BTreeMap, BTreeSet};

use super::{Config, ScheduleKind};

/// Keys that decide no bit of a step.
const FREE_KEYS: [&str; 7] = [
    "data.path",
    "train.micro_batch_size",
    "train.target_loss",
    "train.log_every",
    "train.eval_every",
    "train.checkpoint_every",
    "train.keep",
];
/// Keys that decide none either if the rate does not depend on the run's length.
const LENGTH_KEYS: [&str; 2] = ["train.epochs", "train.max_steps"];

impl Config {
    /// SHA-256 of what decides the bits of every step. Left out is what does not: where the
    /// corpus lies (its own digest stands beside this one), the micro-batch, what is logged and
    /// saved when, and at which loss to stop.
    ///
    /// # Errors
    /// As [`Config::to_toml`].
    pub fn digest(&self) -> anyhow::Result<String> {
        let mut bits = self.clone();
        bits.data.path = String::new();
        let free = &mut bits.train;
        (free.micro_batch_size, free.target_loss) = (None, None);
        (
            free.log_every,
            free.eval_every,
            free.checkpoint_every,
            free.keep,
        ) = (0, 0, 0, 0);
        Ok(hlx_core::digest::sha256_hex(bits.to_toml()?.as_bytes()))
    }

    /// Fails unless a run of the saved configuration can go on under this one: every key that
    /// decides a step's bits must be the same.
    ///
    /// # Errors
    /// The first key that differs, with both values.
    pub fn check_resumes(&self, saved: &Self) -> anyhow::Result<()> {
        let (new, old) = (self.flat()?, saved.flat()?);
        let free = |key: &str| {
            let constant = self.train.schedule == ScheduleKind::Constant;
            FREE_KEYS.contains(&key) || (constant && LENGTH_KEYS.contains(&key))
        };
        let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
        for key in keys.into_iter().filter(|key| !free(key)) {
            let text = |flat: &BTreeMap<String, String>| {
                flat.get(key)
                    .cloned()
                    .unwrap_or_else(|| "not set".to_owned())
            };
            let (there, here) = (text(&old), text(&new));
            let kind = if key.starts_with("model.") {
                "another model"
            } else {
                "another run"
            };
            anyhow::ensure!(
                there == here,
                "is of {kind}: {key} is {there} there and {here} here"
            );
        }
        Ok(())
    }

    /// Every value as text, by its dotted key.
    fn flat(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let table = toml::Table::try_from(self)?;
        let mut flat = BTreeMap::new();
        for (section, value) in &table {
            match value {
                toml::Value::Table(inner) => flat.extend(
                    inner
                        .iter()
                        .map(|(key, value)| (format!("{section}.{key}"), value.to_string())),
                ),
                _ => _ = flat.insert(section.clone(), value.to_string()),
            }
        }
        // The preset says nothing that the sizes do not say.
        flat.remove("model.preset");
        Ok(flat)
    }
}
