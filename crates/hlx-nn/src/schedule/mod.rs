//! Learning-rate schedules, by `torch.optim.lr_scheduler`'s formulas in HLX's own arithmetic: the
//! same bits on every machine.
//!
//! A [`Schedule`] is a function of the step (or epoch: whatever the caller counts). [`Plateau`]
//! follows a measured value and has a state.

mod plateau;

use hlx_core::arith::{add, cos, div, mul, sqrt, sub};
use hlx_core::cpu::with_flush;
use hlx_kernels::optimizer::power;

pub use plateau::{Plateau, PlateauConfig, PlateauState};

use crate::Result;
use crate::error::NnError;

/// The rate as a function of the step `t`, counted from 0, and of a base rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// `base`.
    Constant,
    /// `base gamma^(t / step_size)`, rounded down: `StepLR`.
    Step {
        /// Steps between two multiplications.
        step_size: u64,
        /// The factor.
        gamma: f64,
    },
    /// `base gamma^n` for `n` milestones up to `t`: `MultiStepLR`.
    MultiStep {
        /// The steps at which the rate is multiplied, in ascending order.
        milestones: Vec<u64>,
        /// The factor.
        gamma: f64,
    },
    /// `base gamma^t`: `ExponentialLR`.
    Exponential {
        /// The factor of each step.
        gamma: f64,
    },
    /// `base (start_factor + (end_factor - start_factor) min(t, total_iters) / total_iters)`:
    /// `LinearLR`.
    Linear {
        /// The factor of step 0.
        start_factor: f64,
        /// The factor from step `total_iters` on.
        end_factor: f64,
        /// Steps from one to the other.
        total_iters: u64,
    },
    /// `eta_min + (base - eta_min) (1 + cos(pi t / t_max)) / 2`, which rises again after `t_max`:
    /// `CosineAnnealingLR`.
    Cosine {
        /// Steps of half a period.
        t_max: u64,
        /// The least rate.
        eta_min: f64,
    },
    /// The cosine from `base` to `eta_min` over `t_0` steps, begun anew with `t_mult` times as many
    /// steps each time: `CosineAnnealingWarmRestarts`.
    CosineWarmRestarts {
        /// Steps until the first restart.
        t_0: u64,
        /// The factor from each stretch to the next.
        t_mult: u64,
        /// The rate just before a restart.
        eta_min: f64,
    },
    /// Up to the base rate and down to almost nothing: `OneCycleLR`.
    OneCycle(OneCycle),
    /// `base`, and over the last `decay` of `total` steps down to `base min_factor`: the schedule WSD
    /// (warm-up, stable, decay; Hu and others 2024) behind its warm-up.
    StableDecay {
        /// Steps of the whole course.
        total: u64,
        /// Steps of the fall at its end.
        decay: u64,
        /// The last rate over the base rate.
        min_factor: f64,
        /// The curve of the fall.
        shape: DecayShape,
    },
    /// `base (t + 1) / steps` for `t < steps`, then another schedule counted from there. PyTorch:
    /// `SequentialLR` of `LinearLR` from `1 / steps` over `steps - 1` and the other one.
    Warmup {
        /// Steps of the rise; the last of them has the base rate.
        steps: u64,
        /// What follows.
        then: Box<Schedule>,
    },
}

/// How the rate of [`Schedule::StableDecay`] falls, by the part `p` of its last steps that are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecayShape {
    /// By `1 - p`.
    Linear,
    /// By `1 - sqrt(p)` (Hägele and others 2024).
    #[default]
    OneMinusSqrt,
    /// By `(1 + cos(pi p)) / 2`.
    Cosine,
}

impl DecayShape {
    fn rate(self, from: f32, to: f32, part: f32) -> f32 {
        match self {
            Self::Linear => add(from, mul(sub(to, from), part)),
            Self::OneMinusSqrt => add(from, mul(sub(to, from), sqrt(part))),
            Self::Cosine => half_cosine(from, to, part),
        }
    }
}

/// The numbers of `OneCycleLR`, whose `max_lr` is the base rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycle {
    /// Steps of the whole cycle; the rate stays at its last value after them.
    pub total_steps: u64,
    /// The part of the steps in which the rate rises.
    pub pct_start: f64,
    /// The first rate is the base rate over this.
    pub div_factor: f64,
    /// The last rate is the first rate over this.
    pub final_div_factor: f64,
    /// Falls in as many steps as it rose, back to the first rate, and then to the last.
    pub three_phase: bool,
    /// Straight lines instead of half cosines.
    pub linear: bool,
}

impl OneCycle {
    /// PyTorch's defaults for a number of steps.
    pub fn new(total_steps: u64) -> Self {
        Self {
            total_steps,
            pct_start: 0.3,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
            linear: false,
        }
    }

    fn rate(&self, base: f32, step: u64) -> f32 {
        let (total, rise) = (
            self.total_steps as f64,
            self.pct_start * self.total_steps as f64,
        );
        let first = div(base, self.div_factor as f32);
        let last = div(first, self.final_div_factor as f32);
        // Each phase: the step that it ends at, and the rates that it goes between.
        let phases = if self.three_phase {
            vec![
                (rise - 1.0, first, base),
                (2.0 * rise - 2.0, base, first),
                (total - 1.0, first, last),
            ]
        } else {
            vec![(rise - 1.0, first, base), (total - 1.0, base, last)]
        };
        let step = (step as f64).min(total - 1.0);
        let mut begin = 0.0;
        for (end, from, to) in phases {
            if step <= end {
                let part = ((step - begin) / (end - begin)) as f32;
                return self.between(from, to, part);
            }
            begin = end;
        }
        last
    }

    fn between(&self, from: f32, to: f32, part: f32) -> f32 {
        if self.linear {
            return add(from, mul(sub(to, from), part));
        }
        half_cosine(from, to, part)
    }
}

/// `to + (from - to) (1 + cos(pi part)) / 2`.
fn half_cosine(from: f32, to: f32, part: f32) -> f32 {
    let wave = cos(mul(std::f32::consts::PI, part));
    add(to, mul(sub(from, to), mul(0.5, add(1.0, wave))))
}

impl Schedule {
    /// The rate of the step of this number, counted from 0; it is computed in f32.
    pub fn rate(&self, base: f64, step: u64) -> f64 {
        with_flush(|| self.rate_in_flush(base as f32, step)).into()
    }

    fn rate_in_flush(&self, base: f32, step: u64) -> f32 {
        let times = |gamma: f64, n: u64| mul(base, power(gamma, n) as f32);
        match self {
            Self::Constant => base,
            Self::Step { step_size, gamma } => times(*gamma, step / (*step_size).max(1)),
            Self::MultiStep { milestones, gamma } => times(
                *gamma,
                milestones.iter().filter(|at| **at <= step).count() as u64,
            ),
            Self::Exponential { gamma } => times(*gamma, step),
            Self::Linear {
                start_factor,
                end_factor,
                total_iters,
            } => {
                let total = (*total_iters).max(1);
                let part = div(step.min(total) as f32, total as f32);
                let change = mul((end_factor - start_factor) as f32, part);
                mul(base, add(*start_factor as f32, change))
            }
            Self::Cosine { t_max, eta_min } => {
                // Past the first period the angle is taken from where it began.
                let t_max = (*t_max).max(1);
                let part = div((step % (2 * t_max)) as f32, t_max as f32);
                half_cosine(base, *eta_min as f32, part)
            }
            Self::CosineWarmRestarts {
                t_0,
                t_mult,
                eta_min,
            } => {
                let (behind, length) = restarted(step, *t_0, *t_mult);
                half_cosine(base, *eta_min as f32, div(behind as f32, length as f32))
            }
            Self::OneCycle(cycle) => cycle.rate(base, step),
            Self::StableDecay {
                total,
                decay,
                min_factor,
                shape,
            } => {
                let behind = step
                    .min(*total)
                    .saturating_sub(total.saturating_sub(*decay));
                let part = div(behind as f32, (*decay).max(1) as f32);
                shape.rate(base, mul(base, *min_factor as f32), part)
            }
            Self::Warmup { steps, .. } if step < *steps => {
                mul(base, div((step + 1) as f32, *steps as f32))
            }
            Self::Warmup { steps, then } => then.rate_in_flush(base, step - steps),
        }
    }

    /// Fails for numbers that no schedule can have.
    ///
    /// # Errors
    /// [`NnError::Config`] with the number and what was expected.
    pub fn check(&self) -> Result<()> {
        let positive = |what: &str, value: u64| match value {
            0 => Err(refused(format!("{what} is 0, expected at least 1"))),
            _ => Ok(()),
        };
        match self {
            Self::Constant => Ok(()),
            Self::Step { step_size, gamma } => {
                positive("step_size", *step_size)?;
                at_least_zero("gamma", *gamma)
            }
            Self::MultiStep { milestones, gamma } => {
                if !milestones.is_sorted() {
                    let reason =
                        format!("milestones are {milestones:?}, expected in ascending order");
                    return Err(refused(reason));
                }
                at_least_zero("gamma", *gamma)
            }
            Self::Exponential { gamma } => at_least_zero("gamma", *gamma),
            Self::Linear {
                start_factor,
                end_factor,
                total_iters,
            } => {
                at_least_zero("start_factor", *start_factor)?;
                at_least_zero("end_factor", *end_factor)?;
                positive("total_iters", *total_iters)
            }
            Self::Cosine { t_max, eta_min } => {
                positive("t_max", *t_max)?;
                at_least_zero("eta_min", *eta_min)
            }
            Self::CosineWarmRestarts {
                t_0,
                t_mult,
                eta_min,
            } => {
                positive("t_0", *t_0)?;
                positive("t_mult", *t_mult)?;
                at_least_zero("eta_min", *eta_min)
            }
            Self::OneCycle(cycle) => cycle.check(),
            Self::StableDecay {
                total,
                decay,
                min_factor,
                ..
            } => {
                if decay > total {
                    let reason = format!("decay is {decay}, expected at most the {total} steps");
                    return Err(refused(reason));
                }
                at_least_zero("min_factor", *min_factor)
            }
            Self::Warmup { then, .. } => then.check(),
        }
    }
}

impl OneCycle {
    fn check(&self) -> Result<()> {
        if self.total_steps == 0 {
            return Err(refused("total_steps is 0, expected at least 1".to_owned()));
        }
        if !(0.0..=1.0).contains(&self.pct_start) {
            let reason = format!("pct_start is {}, expected from 0 to 1", self.pct_start);
            return Err(refused(reason));
        }
        for (what, value) in [
            ("div_factor", self.div_factor),
            ("final_div_factor", self.final_div_factor),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(refused(format!(
                    "{what} is {value}, expected more than 0 and finite"
                )));
            }
        }
        Ok(())
    }
}

/// The steps since the last restart, and those until the next from there.
fn restarted(step: u64, t_0: u64, t_mult: u64) -> (u64, u64) {
    let (mut behind, mut length) = (step, t_0.max(1));
    if t_mult <= 1 {
        return (behind % length, length);
    }
    while behind >= length {
        behind -= length;
        length = length.saturating_mul(t_mult);
    }
    (behind, length)
}

fn at_least_zero(what: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(refused(format!(
        "{what} is {value}, expected at least 0 and finite"
    )))
}

fn refused(reason: String) -> NnError {
    NnError::Config {
        what: "schedule",
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        let message = |schedule: Schedule| schedule.check().expect_err("refused").to_string();
        let step = Schedule::Step {
            step_size: 0,
            gamma: 0.1,
        };
        assert_eq!(
            message(step),
            "schedule: step_size is 0, expected at least 1"
        );
        let milestones = Schedule::MultiStep {
            milestones: vec![3, 2],
            gamma: 0.1,
        };
        let expected = "schedule: milestones are [3, 2], expected in ascending order";
        assert_eq!(message(milestones), expected);
        let behind_warmup = Schedule::Warmup {
            steps: 2,
            then: Box::new(Schedule::Exponential { gamma: f64::NAN }),
        };
        let expected = "schedule: gamma is NaN, expected at least 0 and finite";
        assert_eq!(message(behind_warmup), expected);
        let cycle = OneCycle {
            pct_start: 1.5,
            ..OneCycle::new(10)
        };
        let expected = "schedule: pct_start is 1.5, expected from 0 to 1";
        assert_eq!(message(Schedule::OneCycle(cycle)), expected);
    }

    #[test]
    fn a_stable_rate_falls_over_the_last_steps() {
        let rates = |shape, min_factor| -> Vec<f64> {
            let schedule = Schedule::StableDecay {
                total: 8,
                decay: 4,
                min_factor,
                shape,
            };
            (0..10).map(|step| schedule.rate(0.5, step)).collect()
        };
        let linear = [0.5, 0.5, 0.5, 0.5, 0.5, 0.375, 0.25, 0.125, 0.0, 0.0];
        assert_eq!(rates(DecayShape::Linear, 0.0), linear);
        let by_root = rates(DecayShape::OneMinusSqrt, 0.5);
        assert_eq!(by_root[5], 0.375, "half of the way behind a quarter");
        assert_eq!(by_root[8], 0.25);
        let cosine = rates(DecayShape::Cosine, 0.0);
        assert!((cosine[6] - 0.25).abs() < 1e-6 && cosine[8].abs() < 1e-6);
        let long = Schedule::StableDecay {
            total: 3,
            decay: 4,
            min_factor: 0.0,
            shape: DecayShape::Linear,
        };
        let message = long.check().expect_err("refused").to_string();
        assert_eq!(
            message,
            "schedule: decay is 4, expected at most the 3 steps"
        );
    }

    #[test]
    fn a_warm_up_rises_to_the_base_and_counts_anew() {
        let schedule = Schedule::Warmup {
            steps: 4,
            then: Box::new(Schedule::Step {
                step_size: 2,
                gamma: 0.5,
            }),
        };
        let rates: Vec<f64> = (0..9).map(|step| schedule.rate(0.5, step)).collect();
        assert_eq!(
            rates,
            [0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
        );
    }
}
