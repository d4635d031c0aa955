//! The largest number of each key: far above what a run needs, and far below what overflows a product of them.
//! They are checked before anything is computed with a number, and before there is a run folder.

use toml::Value;

use super::Config;
use super::fault::{Checked, Fault, fault};

/// The largest size of a model; what a size of its own may be, the model says.
const SIZE: i64 = 1 << 24;

/// The most steps, or epochs: every count of them is exact in an f64, as in the metrics.
const STEPS: i64 = 1 << 53;

/// The most samples of a step.
const SAMPLES: i64 = 1 << 20;

/// The largest magnitude of a number that is not whole. One that no f32 holds is read as infinity, and the run ends
/// with the line of a loss that is not finite.
const LARGEST_REAL: f64 = 1e100;

/// The largest number of each key whose values are whole.
const WHOLE: [(&str, i64); 41] = [
    ("seed", i64::MAX),
    ("model.vocabulary", SIZE),
    ("model.width", SIZE),
    ("model.n_layers", 1 << 14),
    ("model.n_heads", SIZE),
    ("model.n_kv_heads", SIZE),
    ("model.head_width", SIZE),
    ("model.feed_forward_width", SIZE),
    ("model.positions", SIZE),
    ("model.hidden", 1 << 16),
    ("model.channels", 1 << 16),
    ("data.length", SIZE),
    ("data.count", 10_000_000),
    ("data.crop_padding", 1 << 16),
    ("data.workers", 64),
    ("train.epochs", 1 << 32),
    ("train.max_steps", STEPS),
    ("train.batch_size", SAMPLES),
    ("train.batch_tokens", SAMPLES * SIZE),
    ("train.micro_batch_size", SAMPLES),
    ("train.shards", 64),
    ("train.warmup_steps", STEPS),
    ("train.max_skips", STEPS),
    ("train.patience", STEPS),
    ("train.log_every", STEPS),
    ("train.eval_every", STEPS),
    ("train.checkpoint_every", STEPS),
    ("train.keep", 1 << 32),
    ("optimizer.ns_steps", 99),
    ("schedule.step_size", STEPS),
    ("schedule.milestones", STEPS),
    ("schedule.t_0", STEPS),
    ("schedule.t_mult", 1 << 32),
    ("schedule.decay_steps", STEPS),
    ("schedule.patience", STEPS),
    ("schedule.cooldown", STEPS),
    ("lora.rank", 1 << 16),
    ("sample.max_tokens", SIZE),
    ("sample.top_k", SIZE),
    // A list of prompts is as long as the file.
    ("sample.prompts", 0),
    ("lora.targets", 0),
];

/// The keys whose values are real numbers: finite, and of a magnitude of at most [`LARGEST_REAL`].
const REAL: [&str; 43] = [
    "model.dropout",
    "model.attention_dropout",
    "data.eval_fraction",
    "data.mean",
    "data.std",
    "data.flip",
    "data.noise",
    "train.learning_rate",
    "train.weight_decay",
    "train.clip_norm",
    "train.clip_value",
    "train.label_smoothing",
    "train.loss_scale",
    "train.router_balance",
    "train.ema_decay",
    "train.min_delta",
    "train.target_loss",
    "optimizer.momentum",
    "optimizer.dampening",
    "optimizer.betas",
    "optimizer.eps",
    "optimizer.eps2",
    "optimizer.beta2_decay",
    "optimizer.d",
    "optimizer.alpha",
    "optimizer.lr_decay",
    "optimizer.initial_accumulator_value",
    "optimizer.adamw_weight_decay",
    "optimizer.adamw_lr_factor",
    "schedule.gamma",
    "schedule.end_factor",
    "schedule.eta_min",
    "schedule.pct_start",
    "schedule.div_factor",
    "schedule.final_div_factor",
    "schedule.factor",
    "schedule.threshold",
    "schedule.min_lr",
    "groups.lr_factor",
    "groups.weight_decay",
    "lora.alpha",
    "sample.temperature",
    "sample.top_p",
];

/// Tables of numbers whose own readers check them.
const CHECKED_ELSEWHERE: [&str; 3] = ["lora.alpha_pattern", "lora.rank_pattern", "model.shape"];

impl Config {
    /// Fails for the first number that is more than its key may have.
    pub(super) fn check_bounds(&self) -> Checked {
        match Value::try_from(self) {
            Ok(value) => check(&value, ""),
            Err(error) => fault("seed", error.to_string()),
        }
    }
}

fn check(value: &Value, key: &str) -> Checked {
    match value {
        Value::Table(table) => table.iter().try_for_each(|(name, value)| {
            let separator = if key.is_empty() { "" } else { "." };
            let key = format!("{key}{separator}{name}");
            match CHECKED_ELSEWHERE.contains(&key.as_str()) {
                true => Ok(()),
                false => check(value, &key),
            }
        }),
        Value::Array(values) => values.iter().try_for_each(|value| check(value, key)),
        Value::Integer(number) => check_whole(*number, key),
        Value::Float(number) => check_real(*number, key),
        Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => Ok(()),
    }
}

fn check_whole(number: i64, key: &str) -> Checked {
    match WHOLE.iter().find(|(known, _)| *known == key) {
        Some((_, most)) if number <= *most => Ok(()),
        Some((key, most)) => fault(key, format!("{number} is more than {most}")),
        None => Err(without_bound(key)),
    }
}

/// The largest whole number of a key, as a text.
pub(super) fn most(key: &str) -> String {
    let known = WHOLE
        .iter()
        .find(|(known, most)| *known == key && *most > 0);
    match known {
        Some(("seed", _)) | None => u64::MAX.to_string(),
        Some((_, most)) => most.to_string(),
    }
}

fn check_real(number: f64, key: &str) -> Checked {
    match REAL.iter().find(|known| **known == key) {
        Some(_) if number.abs() <= LARGEST_REAL => Ok(()),
        Some(key) => fault(
            key,
            format!("{number} is not from -{LARGEST_REAL:e} to {LARGEST_REAL:e}"),
        ),
        None => Err(without_bound(key)),
    }
}

/// A number that the lists above lack, which a test does not let happen.
fn without_bound(key: &str) -> Fault {
    Fault {
        key: "",
        reason: format!("{key} has no bound"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BASE: &str = "[model]\npreset = \"tiny\"\n\n[data]\npath = \"a.txt\"\nformat = \"text\"\n\n\
                        [train]\nmax_steps = 4\n";

    /// Keys that are not numbers.
    const OTHERS: [&str; 47] = [
        "arithmetic",
        "model.kind",
        "model.architecture",
        "model.config",
        "model.preset",
        "model.batch_norm",
        "model.shape",
        "data.path",
        "data.format",
        "data.windows",
        "data.rows",
        "data.part",
        "train.schedule",
        "train.optimizer",
        "train.offload",
        "train.init_from",
        "lora.base",
        "lora.base_sha256",
        "train.freeze",
        "train.skip_non_finite",
        "train.allow_non_finite",
        "train.allow_other_device",
        "train.evaluate_average",
        "train.saved",
        "train.recompute",
        "train.recompute_attention",
        "train.save_best",
        "train.tensorboard",
        "train.check_ranks",
        "optimizer.nesterov",
        "optimizer.centered",
        "optimizer.adjust_lr_fn",
        "optimizer.adamw_parameters",
        "schedule.three_phase",
        "schedule.anneal_strategy",
        "schedule.decay_shape",
        "groups.parameters",
        "lora.rslora",
        "lora.dora",
        "lora.rank_pattern",
        "lora.alpha_pattern",
        "lora.modules_to_save",
        "model",
        "data",
        "train",
        "optimizer",
        "schedule",
    ];

    /// The keys of a section, which serde names when one is unknown.
    fn keys_of(section: &str) -> Vec<String> {
        let unknown = match section {
            "" => format!("colour = 1\n{BASE}"),
            "groups" => format!("{BASE}[[groups]]\nparameters = []\ncolour = 1\n"),
            "model" | "data" | "train" => BASE.replace(
                &format!("[{section}]\n"),
                &format!("[{section}]\ncolour = 1\n"),
            ),
            _ => format!("{BASE}[{section}]\ncolour = 1\n"),
        };
        let line = toml::from_str::<Config>(&unknown)
            .expect_err("unknown")
            .message()
            .to_owned();
        let (_, listed) = line
            .split_once("expected one of ")
            .or(line.split_once("expected "))
            .expect("keys");
        let names = listed.split('`').skip(1).step_by(2);
        names
            .map(|name| match section {
                "" => name.to_owned(),
                section => format!("{section}.{name}"),
            })
            .collect()
    }

    #[test]
    fn every_number_of_every_section_has_a_bound() {
        let mut keys = keys_of("");
        for section in keys.clone() {
            let is_section = !["seed", "arithmetic"].contains(&section.as_str());
            if is_section {
                keys.extend(keys_of(&section));
            }
        }
        assert!(keys.len() > 90, "{keys:?}");
        let known: BTreeSet<&str> = WHOLE
            .iter()
            .map(|(key, _)| *key)
            .chain(REAL)
            .chain(OTHERS)
            .chain(["groups", "lora", "sample"])
            .collect();
        for key in &keys {
            assert!(known.contains(key.as_str()), "{key} has no bound");
        }
        for key in known {
            assert!(keys.iter().any(|found| found == key), "{key} is no key");
        }
    }

    /// Which sections a key needs beside it, so that nothing but its number is wrong.
    fn with(key: &str, value: &str) -> anyhow::Result<Config> {
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        let list = ["hidden", "channels", "milestones"].contains(&name);
        let value = match (list, name) {
            (true, _) => format!("[{value}]"),
            (_, "betas") => format!("[{value}, 0.5]"),
            _ => value.to_owned(),
        };
        let text = match section {
            "" => format!("{name} = {value}\n{BASE}"),
            "groups" => format!("{BASE}[[groups]]\nparameters = [\"*\"]\n{name} = {value}\n"),
            "train" if name == "max_steps" => {
                BASE.replace("max_steps = 4", &format!("max_steps = {value}"))
            }
            "model" | "data" | "train" => BASE.replace(
                &format!("[{section}]\n"),
                &format!("[{section}]\n{name} = {value}\n"),
            ),
            _ => format!("{BASE}[{section}]\n{name} = {value}\n"),
        };
        Config::parse(&text, "a.toml", &[])
    }

    #[test]
    fn a_number_past_its_bound_is_refused_before_it_is_used() {
        for (key, most) in WHOLE {
            if [0, i64::MAX].contains(&most) {
                continue;
            }
            for number in [most + 1, 9_000_000_000_000_000_000] {
                let line = format!("{:#}", with(key, &number.to_string()).expect_err(key));
                let expected = format!("{key}: {number} is more than {most}");
                // The largest number does not even have the type of some keys.
                let is_no_number = line.contains(&format!("{key}: invalid value"));
                assert!(line.ends_with(&expected) || is_no_number, "{line}");
            }
        }
        for key in REAL {
            for number in ["nan", "inf", "-inf", "1e300", "-1e300"] {
                let line = format!("{:#}", with(key, number).expect_err(key));
                assert!(line.contains(&format!("{key}: ")), "{line}");
                assert!(line.contains(" is not from -1e100 to 1e100"), "{line}");
            }
        }
    }
}
