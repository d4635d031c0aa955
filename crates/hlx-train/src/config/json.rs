//! A configuration from values in memory, such as a dict of Python, instead of a file.

use anyhow::{Context as _, Result, ensure};

use super::{Config, Override, toml_value};

impl Config {
    /// As [`Config::load`], from a value in memory; `name` stands for the file in messages, which have no line.
    ///
    /// # Errors
    /// As [`Config::load`]; a value that a configuration has no place for, by its key.
    pub fn of_json(config: &serde_json::Value, name: &str, overrides: &[Override]) -> Result<Self> {
        ensure!(
            config.is_object(),
            "{name}: expected sections and their keys"
        );
        let table = toml_value::of_json("", config).with_context(|| name.to_owned())?;
        let text = toml::to_string(&table)?;
        Self::parse(&text, name, overrides).map_err(|error| {
            let line = format!("{error:#}");
            let place = line.strip_prefix(&format!("{name}:"));
            let rest = place.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
            match rest.and_then(|rest| rest.strip_prefix(": ")) {
                Some(rest) => anyhow::anyhow!("{name}: {rest}"),
                None => error,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> serde_json::Value {
        json!({
            "seed": u64::MAX,
            "model": {"preset": "tiny"},
            "data": {"path": "a.jsonl", "format": "pairs"},
            "train": {"epochs": 2, "batch_size": 24, "learning_rate": 1e-4},
            "groups": [{"parameters": ["*.bias"], "weight_decay": 0.0}],
        })
    }

    fn fails(config: &serde_json::Value, overrides: &[Override]) -> String {
        let error = Config::of_json(config, "config", overrides).expect_err("must fail");
        format!("{error:#}")
    }

    #[test]
    fn values_in_memory_are_what_a_file_of_them_is() {
        let text = "seed = 0xffffffffffffffff\n[model]\npreset = \"tiny\"\n[data]\npath = \"a.jsonl\"\n\
                    format = \"pairs\"\n[train]\nepochs = 2\nbatch_size = 24\nlearning_rate = 0.0001\n\
                    [[groups]]\nparameters = [\"*.bias\"]\nweight_decay = 0.0\n";
        let read = Config::parse(text, "a.toml", &[]).expect("good");
        let made = Config::of_json(&config(), "config", &[]).expect("good");
        assert_eq!(made, read);
        let set = Override::value("train.max_steps", &json!(40)).expect("a value");
        let made = Config::of_json(&config(), "config", &[set]).expect("good");
        assert_eq!(made.train.max_steps, Some(40));
    }

    #[test]
    fn faults_name_the_key_and_no_line() {
        let mut odd = config();
        odd["train"]["colour"] = json!(3);
        assert!(fails(&odd, &[]).starts_with("config: train.colour: unknown field"));
        odd = config();
        odd["train"]["batch_size"] = json!("many");
        assert!(fails(&odd, &[]).starts_with("config: train.batch_size: invalid type"));
        odd["train"]["batch_size"] = json!(null);
        let expected = "config: train.batch_size: has no value; leave the key out";
        assert_eq!(fails(&odd, &[]), expected);
        assert!(fails(&json!(3), &[]).starts_with("config: expected sections"));
        let set = Override::value("train.steps", &json!(4)).expect("a value");
        assert!(fails(&config(), &[set]).starts_with("--set train.steps=4: unknown field"));
        assert!(Override::value("train.", &json!(4)).is_err());
    }
}
