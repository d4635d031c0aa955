//! The keys of `[train]` that decide how a run is watched over: skipped steps, moving averages, frozen
//! parameters, early stopping, the best checkpoint.

use hlx_autograd::Recompute;

use super::fault::{Checked, fault, within};
use super::{Config, TrainSection};

/// Steps in a row that may be skipped, if `train.max_skips` is left out.
const MAX_SKIPS: u64 = 10;

impl TrainSection {
    /// Steps in a row that may be skipped before the run ends.
    pub fn max_skips(&self) -> u64 {
        self.max_skips.unwrap_or(MAX_SKIPS)
    }

    /// Whether a step that is not finite is skipped: where that is asked for, and of a scaled loss.
    pub fn skips_non_finite(&self) -> bool {
        self.skip_non_finite || self.loss_scale.is_some()
    }

    /// What of each block the backward pass computes once more.
    pub fn recomputes(&self) -> Option<Recompute> {
        self.recompute.then_some(match self.recompute_attention {
            true => Recompute::All,
            false => Recompute::AllButAttention,
        })
    }

    /// Whether evaluations read the moving average of the parameters.
    pub fn evaluates_average(&self) -> bool {
        self.ema_decay.is_some() && self.evaluate_average.unwrap_or(true)
    }

    /// Whether ranks compare their states and gradients.
    pub fn checks_ranks(&self) -> bool {
        self.check_ranks.unwrap_or(true)
    }

    /// Whether a checkpoint needs what the run was watched by.
    pub fn is_watched(&self) -> bool {
        self.skips_non_finite() || self.patience.is_some() || self.save_best
    }
}

impl Config {
    /// Fails for keys of a part that is off, and for numbers out of range.
    pub(super) fn check_course(&self) -> Checked {
        let train = &self.train;
        within("train.ema_decay", train.ema_decay.unwrap_or(0.0), 0.0, 1.0)?;
        let unlimited = f64::INFINITY;
        within(
            "train.min_delta",
            train.min_delta.unwrap_or(0.0),
            0.0,
            unlimited,
        )?;
        let held_out = self.data.eval_fraction > 0.0 && train.eval_every > 0;
        let evaluations =
            "needs evaluations of held-out samples (data.eval_fraction, train.eval_every)";
        let needs = [
            (
                "train.max_skips",
                train.max_skips.is_some(),
                train.skips_non_finite(),
                "is of train.skip_non_finite or train.loss_scale",
            ),
            (
                "train.evaluate_average",
                train.evaluate_average.is_some(),
                train.ema_decay.is_some(),
                "is of train.ema_decay",
            ),
            (
                "train.recompute_attention",
                train.recompute_attention,
                train.recompute,
                "is of train.recompute",
            ),
            (
                "train.min_delta",
                train.min_delta.is_some(),
                train.patience.is_some() || train.save_best,
                "is of train.patience and train.save_best",
            ),
            (
                "train.patience",
                train.patience.is_some(),
                held_out,
                evaluations,
            ),
            ("train.save_best", train.save_best, held_out, evaluations),
        ];
        for (key, is_set, is_possible, reason) in needs {
            if is_set && !is_possible {
                return fault(key, reason);
            }
        }
        for (key, value) in [
            ("train.max_skips", train.max_skips),
            ("train.patience", train.patience),
        ] {
            if value == Some(0) {
                return fault(key, "0 is not at least 1");
            }
        }
        if self.sample.is_empty() || self.model.classifier_kind().is_none() {
            return self.sample.check();
        }
        fault("sample.prompts", "a classifier writes no text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[model]\npreset = \"tiny\"\n\n[data]\npath = \"a.txt\"\nformat = \"text\"\n\
                        eval_fraction = 0.1\n\n[train]\nmax_steps = 4\neval_every = 2\n";

    fn refused(keys: &str) -> String {
        let text = format!("{BASE}{keys}\n");
        format!(
            "{:#}",
            Config::parse(&text, "a.toml", &[]).expect_err("refused")
        )
    }

    #[test]
    fn keys_that_are_left_out_leave_the_identity_as_it_was() {
        let config =
            |keys: &str| Config::parse(&format!("{BASE}{keys}\n"), "a.toml", &[]).expect("good");
        let plain = config("").identity().expect("one");
        for free in [
            "patience = 3\nmin_delta = 0.01",
            "save_best = true",
            "allow_non_finite = true",
            "recompute = true\nrecompute_attention = true",
            "tensorboard = false",
            "check_ranks = false",
            "[sample]\nprompts = [\"a\"]\ntemperature = 0.5",
        ] {
            assert_eq!(config(free).identity().expect("one"), plain, "{free}");
        }
        for bound in [
            "skip_non_finite = true",
            "ema_decay = 0.9",
            "freeze = [\"output.*\"]",
        ] {
            assert_ne!(config(bound).identity().expect("one"), plain, "{bound}");
        }
        let free = config("skip_non_finite = true\nmax_skips = 3")
            .identity()
            .expect("one");
        assert_eq!(
            free,
            config("skip_non_finite = true").identity().expect("one")
        );
        assert_eq!(
            config("").to_toml().expect("toml").matches("ema").count(),
            0
        );
    }

    #[test]
    fn keys_without_their_part_and_numbers_out_of_range_are_refused() {
        for (keys, expected) in [
            (
                "max_skips = 3",
                "train.max_skips: is of train.skip_non_finite or train.loss_scale",
            ),
            (
                "evaluate_average = true",
                "train.evaluate_average: is of train.ema_decay",
            ),
            (
                "recompute_attention = true",
                "train.recompute_attention: is of train.recompute",
            ),
            (
                "ema_decay = 1.0",
                "train.ema_decay: 1 is not at least 0 and below 1",
            ),
            ("patience = 0", "train.patience: 0 is not at least 1"),
            ("[sample]\nprompts = [\"\"]", "sample.prompts: one is empty"),
            (
                "[sample]\nprompts = [\"a\"]\ntop_p = 0.0",
                "sample.top_p: 0 is not above 0 and at most 1",
            ),
        ] {
            let line = refused(keys);
            assert!(line.ends_with(expected), "{line}");
        }
        let text = BASE.replace("eval_every = 2", "patience = 2");
        let line = format!(
            "{:#}",
            Config::parse(&text, "a.toml", &[]).expect_err("refused")
        );
        assert!(line.contains("train.patience: needs evaluations"), "{line}");
    }
}
