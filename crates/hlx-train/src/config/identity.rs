//! Which configurations are the same run: the keys that decide its bits, and their digest.

use std::collections::{BTreeMap, BTreeSet};

use super::Config;

/// Keys that decide no bit of a step: where the corpus and the first weights lie (the chain has their
/// digests), the threads that make images, the presets (the sizes and the shape say the same), the micro-batch,
/// recomputation and what lies in the host's memory, whether a run may move, what is logged, evaluated and saved when, and
/// when to stop.
const FREE_KEYS: [&str; 24] = [
    "data.path",
    "data.workers",
    "lora.base",
    "model.architecture",
    "model.preset",
    "train.micro_batch_size",
    "train.target_loss",
    "train.init_from",
    "train.recompute",
    "train.recompute_attention",
    "train.offload",
    "train.max_skips",
    "train.allow_non_finite",
    "train.allow_other_device",
    "train.evaluate_average",
    "train.patience",
    "train.min_delta",
    "train.save_best",
    "train.tensorboard",
    "train.check_ranks",
    "train.log_every",
    "train.eval_every",
    "train.checkpoint_every",
    "train.keep",
];
/// Keys that each rank of a run has for itself.
const OWN_KEYS: [&str; 5] = [
    "data.path",
    "data.workers",
    "lora.base",
    "train.init_from",
    "train.micro_batch_size",
];
/// The section that decides none.
const FREE_SECTION: &str = "sample.";
/// Keys that decide none either if the rate does not depend on the run's length.
const LENGTH_KEYS: [&str; 2] = ["train.epochs", "train.max_steps"];

impl Config {
    /// The keys that decide the bits of a step, dotted, with their values as TOML. Two
    /// configurations are of the same run if their identities are equal.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn identity(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let endless = !self.train.schedule.depends_on_length();
        let mut identity = self.flat()?;
        identity.retain(|key, _| {
            let key = key.as_str();
            let is_free = FREE_KEYS.contains(&key)
                || key.starts_with(FREE_SECTION)
                || (endless && LENGTH_KEYS.contains(&key));
            !is_free
        });
        Ok(identity)
    }

    /// SHA-256 of the identity, a line `key = value` for each key in their order: what the chain,
    /// the checkpoints and `run.json` store of a configuration.
    ///
    /// # Errors
    /// As [`Config::identity`].
    pub fn identity_digest(&self) -> anyhow::Result<String> {
        let lines = self.identity()?;
        let lines = lines
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"));
        Ok(hlx_core::digest::sha256_hex(
            lines.collect::<String>().as_bytes(),
        ))
    }

    /// Every key, dotted, with its value as TOML.
    ///
    /// # Errors
    /// As [`Config::identity`].
    pub fn keys(&self) -> anyhow::Result<BTreeMap<String, String>> {
        self.flat()
    }

    /// What the ranks of a run must have in common: every key but where data and first weights lie, how
    /// many threads read them, and how many samples a rank computes at a time. More than the identity, as
    /// ranks must log, evaluate and save at the same steps.
    ///
    /// # Errors
    /// As [`Config::identity`].
    pub fn shared_keys(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut keys = self.flat()?;
        keys.retain(|key, _| !OWN_KEYS.contains(&key.as_str()));
        Ok(keys)
    }

    /// The digest that chains of version 1 have in place of [`Config::identity_digest`]: of the
    /// whole file, with seven keys blanked.
    ///
    /// # Errors
    /// As [`Config::to_toml`].
    pub fn digest_before_identities(&self) -> anyhow::Result<String> {
        let mut bits = self.clone();
        bits.data.path = String::new();
        let train = &mut bits.train;
        (train.micro_batch_size, train.target_loss) = (None, None);
        (train.log_every, train.eval_every) = (0, 0);
        (train.checkpoint_every, train.keep) = (0, 0);
        Ok(hlx_core::digest::sha256_hex(bits.to_toml()?.as_bytes()))
    }

    /// Fails unless a run of the saved configuration can continue under this one: the identities
    /// must be equal.
    ///
    /// # Errors
    /// The first key that differs, with both values.
    pub fn check_resumes(&self, saved: &Self) -> anyhow::Result<()> {
        let (new, old) = (self.identity()?, saved.identity()?);
        let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
        for key in keys {
            let text = |identity: &BTreeMap<String, String>| {
                let value = identity.get(key).cloned();
                value.unwrap_or_else(|| "not set".to_owned())
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

    /// Every value as TOML, by its dotted key.
    fn flat(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let table = toml::Table::try_from(self)?;
        let mut flat = BTreeMap::new();
        flatten("", &table, &mut flat);
        Ok(flat)
    }
}

/// Adds the values of a table under their dotted keys.
fn flatten(prefix: &str, table: &toml::Table, flat: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{key}."), inner, flat),
            _ => _ = flat.insert(key, value.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESET: &str = "[model]\npreset = \"tiny\"\n\n[data]\npath = \"a.jsonl\"\n\
                          format = \"pairs\"\n\n[train]\nmax_steps = 4\n";

    fn config(text: &str, sets: &[&str]) -> Config {
        let overrides: Vec<_> = sets.iter().map(|set| set.parse().expect("set")).collect();
        Config::parse(text, "a.toml", &overrides).expect("good")
    }

    #[test]
    fn keys_that_decide_no_bit_are_out_of_the_identity() {
        let digest = |text, sets: &[&str]| config(text, sets).identity_digest().expect("digests");
        let reference = digest(PRESET, &[]);
        let sizes = "width = 256\nn_layers = 4\nn_heads = 4";
        let spelled = PRESET.replace("preset = \"tiny\"", sizes);
        assert_eq!(digest(&spelled, &[]), reference, "a preset is its sizes");
        for free in [
            "data.path=b.jsonl",
            "train.micro_batch_size=1",
            "train.target_loss=0.5",
            "train.log_every=3",
            "train.eval_every=3",
            "train.checkpoint_every=0",
            "train.keep=9",
        ] {
            assert_eq!(digest(PRESET, &[free]), reference, "{free}");
        }
        for bound in [
            "seed=1",
            "train.max_steps=5",
            "train.shards=1",
            "data.eval_fraction=0.1",
        ] {
            assert_ne!(digest(PRESET, &[bound]), reference, "{bound}");
        }
    }

    #[test]
    fn a_constant_schedules_end_is_out_of_the_identity() {
        let constant = |end: &str| config(PRESET, &["train.schedule=constant", end]);
        let (short, long) = (constant("train.max_steps=4"), constant("train.epochs=7"));
        assert_eq!(
            short.identity().expect("one"),
            long.identity().expect("one")
        );
        long.check_resumes(&short).expect("the same run");
    }
}
