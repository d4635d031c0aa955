//! `[schedule]`: the numbers of the schedule that `train.schedule` names.

use hlx_nn::{DecayShape, OneCycle, PlateauConfig, Schedule};
use serde::{Deserialize, Serialize};

use super::Config;
use super::fault::{Checked, fault};

/// How the learning rate changes after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Stays at the peak.
    Constant,
    /// Falls in a straight line; it would reach its end at the step after the last.
    Linear,
    /// Falls along half a cosine; it would reach its end at the step after the last.
    #[default]
    Cosine,
    /// Is multiplied every this many steps.
    Step,
    /// Is multiplied at given steps.
    MultiStep,
    /// Is multiplied at every step.
    Exponential,
    /// Falls along half a cosine, again and again.
    CosineWarmRestarts,
    /// Rises to the peak and falls to almost nothing at the run's end.
    OneCycle,
    /// Stays at the peak and falls over the run's last steps.
    Wsd,
    /// Falls when the training loss of an epoch has stopped to improve.
    Plateau,
}

impl ScheduleKind {
    /// Whether a step's rate depends on the number of steps of the run.
    pub fn depends_on_length(self) -> bool {
        matches!(
            self,
            Self::Linear | Self::Cosine | Self::OneCycle | Self::Wsd
        )
    }
}

/// `[schedule]`: numbers that are not the schedule's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleSection {
    /// For `step`: steps between two multiplications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_size: Option<u64>,
    /// For `multi_step`: the steps, in ascending order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milestones: Option<Vec<u64>>,
    /// For `step` and `multi_step` (0.1) and `exponential`: the factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gamma: Option<f64>,
    /// For `linear` and `wsd`: the factor at the end, 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_factor: Option<f64>,
    /// For `cosine` and `cosine_warm_restarts`: the least rate, 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_min: Option<f64>,
    /// For `cosine_warm_restarts`: steps until the first restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_0: Option<u64>,
    /// For `cosine_warm_restarts`: the factor from each stretch to the next, 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_mult: Option<u64>,
    /// For `one_cycle`: the part of the steps that rises, 0.3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pct_start: Option<f64>,
    /// For `one_cycle`: the peak over the first rate, 25.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub div_factor: Option<f64>,
    /// For `one_cycle`: the first rate over the last, 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_div_factor: Option<f64>,
    /// For `one_cycle`: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub three_phase: Option<bool>,
    /// For `one_cycle`: `cos` or `linear`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anneal_strategy: Option<Anneal>,
    /// For `wsd`: steps of the fall; a tenth of those after the warm-up if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_steps: Option<u64>,
    /// For `wsd`: the curve of the fall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay_shape: Option<DecayKind>,
    /// For `plateau`: what the rate is multiplied by, 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// For `plateau`: epochs without an improvement that are waited for, 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    /// For `plateau`: the least improvement that counts, a part of the best loss; 1e-4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// For `plateau`: epochs after a fall that count as good, 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<u64>,
    /// For `plateau`: the least rate, 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_lr: Option<f64>,
}

/// The curve of `one_cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anneal {
    /// Half cosines.
    Cos,
    /// Straight lines.
    Linear,
}

/// The curve of the fall of `wsd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecayKind {
    /// A straight line.
    Linear,
    /// One minus a square root: the default.
    OneMinusSqrt,
    /// Half a cosine.
    Cosine,
}

impl DecayKind {
    fn shape(self) -> DecayShape {
        match self {
            Self::Linear => DecayShape::Linear,
            Self::OneMinusSqrt => DecayShape::OneMinusSqrt,
            Self::Cosine => DecayShape::Cosine,
        }
    }
}

/// Each key of the section with the schedules that have it.
const KEYS: [(&str, &[ScheduleKind]); 19] = {
    use ScheduleKind::{
        Cosine, CosineWarmRestarts, Exponential, Linear, MultiStep, OneCycle, Plateau, Step, Wsd,
    };
    [
        ("schedule.step_size", &[Step]),
        ("schedule.milestones", &[MultiStep]),
        ("schedule.gamma", &[Step, MultiStep, Exponential]),
        ("schedule.end_factor", &[Linear, Wsd]),
        ("schedule.eta_min", &[Cosine, CosineWarmRestarts]),
        ("schedule.t_0", &[CosineWarmRestarts]),
        ("schedule.t_mult", &[CosineWarmRestarts]),
        ("schedule.pct_start", &[OneCycle]),
        ("schedule.div_factor", &[OneCycle]),
        ("schedule.final_div_factor", &[OneCycle]),
        ("schedule.three_phase", &[OneCycle]),
        ("schedule.anneal_strategy", &[OneCycle]),
        ("schedule.decay_steps", &[Wsd]),
        ("schedule.decay_shape", &[Wsd]),
        ("schedule.factor", &[Plateau]),
        ("schedule.patience", &[Plateau]),
        ("schedule.threshold", &[Plateau]),
        ("schedule.cooldown", &[Plateau]),
        ("schedule.min_lr", &[Plateau]),
    ]
};

impl ScheduleSection {
    /// Whether the schedule has its defaults.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// The schedule after the warm-up, which lasts `steps`; `None` for `plateau`, whose rate is no
    /// function of the step.
    pub fn schedule_over(&self, steps: u64) -> Option<Schedule> {
        let section = &self.schedule;
        let eta_min = section.eta_min.unwrap_or(0.0);
        let gamma = section.gamma.unwrap_or(0.1);
        Some(match self.train.schedule {
            ScheduleKind::Constant => Schedule::Constant,
            ScheduleKind::Linear => Schedule::Linear {
                start_factor: 1.0,
                end_factor: section.end_factor.unwrap_or(0.0),
                total_iters: steps,
            },
            ScheduleKind::Cosine => Schedule::Cosine {
                t_max: steps,
                eta_min,
            },
            ScheduleKind::Step => Schedule::Step {
                step_size: section.step_size.unwrap_or(0),
                gamma,
            },
            ScheduleKind::MultiStep => Schedule::MultiStep {
                milestones: section.milestones.clone().unwrap_or_default(),
                gamma,
            },
            ScheduleKind::Exponential => Schedule::Exponential { gamma },
            ScheduleKind::CosineWarmRestarts => Schedule::CosineWarmRestarts {
                t_0: section.t_0.unwrap_or(0),
                t_mult: section.t_mult.unwrap_or(1),
                eta_min,
            },
            ScheduleKind::OneCycle => Schedule::OneCycle(section.one_cycle(steps)),
            ScheduleKind::Wsd => Schedule::StableDecay {
                total: steps,
                decay: section.decay_steps.unwrap_or(steps.div_ceil(10)),
                min_factor: section.end_factor.unwrap_or(0.0),
                shape: section
                    .decay_shape
                    .map_or_else(DecayShape::default, DecayKind::shape),
            },
            ScheduleKind::Plateau => return None,
        })
    }

    /// The numbers of `plateau`.
    pub fn plateau(&self) -> PlateauConfig {
        let (section, default) = (&self.schedule, PlateauConfig::default());
        PlateauConfig {
            factor: section.factor.unwrap_or(default.factor),
            patience: section.patience.unwrap_or(default.patience),
            threshold: section.threshold.unwrap_or(default.threshold),
            cooldown: section.cooldown.unwrap_or(default.cooldown),
            min_lr: section.min_lr.unwrap_or(default.min_lr),
            ..default
        }
    }

    /// Fails for keys of another schedule, missing ones and numbers out of range.
    pub(super) fn check_schedule(&self) -> Checked {
        let kind = self.train.schedule;
        let set = toml::Table::try_from(&self.schedule).unwrap_or_default();
        for (key, kinds) in KEYS {
            let name = key.trim_start_matches("schedule.");
            if set.contains_key(name) && !kinds.contains(&kind) {
                let own = KEYS.iter().filter(|(_, kinds)| kinds.contains(&kind));
                let own: Vec<&str> = own
                    .map(|(key, _)| key.trim_start_matches("schedule."))
                    .collect();
                let own = if own.is_empty() {
                    "none".to_owned()
                } else {
                    own.join(", ")
                };
                return fault(key, format!("is no key of this schedule, which has {own}"));
            }
        }
        for (needed, key, by) in [
            (ScheduleKind::Step, "schedule.step_size", "step_size"),
            (ScheduleKind::MultiStep, "schedule.milestones", "milestones"),
            (ScheduleKind::Exponential, "schedule.gamma", "gamma"),
            (ScheduleKind::CosineWarmRestarts, "schedule.t_0", "t_0"),
        ] {
            if kind == needed && !set.contains_key(by) {
                return fault(key, "is missing: train.schedule needs it");
            }
        }
        // The steps of the run are known with its data alone, and a limit to `wsd`'s fall with them.
        let checked = match self.schedule_over(u64::MAX) {
            Some(schedule) => schedule.check(),
            None => hlx_nn::Plateau::new(self.train.learning_rate, self.plateau()).map(|_| ()),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(error) => fault("train.schedule", error.to_string()),
        }
    }
}

impl ScheduleSection {
    fn one_cycle(&self, total_steps: u64) -> OneCycle {
        let default = OneCycle::new(total_steps);
        OneCycle {
            total_steps,
            pct_start: self.pct_start.unwrap_or(default.pct_start),
            div_factor: self.div_factor.unwrap_or(default.div_factor),
            final_div_factor: self.final_div_factor.unwrap_or(default.final_div_factor),
            three_phase: self.three_phase.unwrap_or(default.three_phase),
            linear: self.anneal_strategy == Some(Anneal::Linear),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[model]\npreset = \"tiny\"\n\n[data]\npath = \"a.jsonl\"\n\
                        format = \"pairs\"\n\n[train]\nmax_steps = 4\n";

    fn config(schedule: &str, keys: &str) -> anyhow::Result<Config> {
        let text = format!("{BASE}schedule = \"{schedule}\"\n[schedule]\n{keys}\n");
        Config::parse(&text, "a.toml", &[])
    }

    #[test]
    fn every_schedule_takes_its_keys() {
        for (schedule, keys) in [
            ("constant", ""),
            ("linear", "end_factor = 0.1"),
            ("cosine", "eta_min = 1e-5"),
            ("step", "step_size = 3\ngamma = 0.5"),
            ("multi_step", "milestones = [2, 3]"),
            ("exponential", "gamma = 0.9"),
            ("cosine_warm_restarts", "t_0 = 2\nt_mult = 2"),
            (
                "wsd",
                "decay_steps = 2\ndecay_shape = \"linear\"\nend_factor = 0.1",
            ),
            ("one_cycle", "pct_start = 0.5\nanneal_strategy = \"linear\""),
            ("plateau", "factor = 0.5\npatience = 2"),
        ] {
            let found = config(schedule, keys).expect(schedule);
            let again = Config::parse(&found.to_toml().expect("toml"), "b.toml", &[]);
            assert_eq!(again.expect("again"), found);
        }
    }

    #[test]
    fn keys_of_another_schedule_and_missing_ones_are_refused() {
        let refused =
            |schedule, keys| format!("{:#}", config(schedule, keys).expect_err("refused"));
        let expected = "a.toml:12: schedule.gamma: is no key of this schedule, which has eta_min";
        assert_eq!(refused("cosine", "gamma = 0.5"), expected);
        let expected = "schedule.step_size: is missing: train.schedule needs it";
        assert!(refused("step", "").ends_with(expected));
        let line = refused("step", "step_size = 0");
        assert!(
            line.ends_with("step_size is 0, expected at least 1"),
            "{line}"
        );
        let line = refused("plateau", "factor = 1.0");
        assert!(
            line.ends_with("factor is 1, expected at least 0 and below 1"),
            "{line}"
        );
        let line = refused("triangle", "");
        assert!(line.contains("`one_cycle`, `wsd`, `plateau`"), "{line}");
    }
}
