//! The learning rate of each step, by HLX's own arithmetic: the same bits on every machine.

use hlx_core::arith::{add, cos, div, mul, sub};
use hlx_core::cpu::with_flush;

use crate::config::{ScheduleKind, TrainSection};

/// The rate as a function of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    kind: ScheduleKind,
    peak: f32,
    warmup_steps: u64,
    total_steps: u64,
}

impl Schedule {
    /// The schedule of a run of `total_steps`.
    pub fn new(train: &TrainSection, total_steps: u64) -> Self {
        Self {
            kind: train.schedule,
            peak: train.learning_rate as f32,
            warmup_steps: train.warmup_steps,
            total_steps,
        }
    }

    /// The rate of the step of this number, counted from 0.
    ///
    /// In the warm-up it is `peak * (step + 1) / warmup_steps`. After it, with p the fraction of
    /// the remaining steps that is done: `peak`, `peak * (1 - p)`, or
    /// `peak * (1 + cos(pi * p)) / 2`.
    pub fn rate(&self, step: u64) -> f32 {
        with_flush(|| {
            if step < self.warmup_steps {
                return mul(self.peak, div((step + 1) as f32, self.warmup_steps as f32));
            }
            let rest = self.total_steps.saturating_sub(self.warmup_steps).max(1);
            let behind = (step - self.warmup_steps).min(rest);
            let progress = div(behind as f32, rest as f32);
            match self.kind {
                ScheduleKind::Constant => self.peak,
                ScheduleKind::Linear => mul(self.peak, sub(1.0, progress)),
                ScheduleKind::Cosine => {
                    let wave = cos(mul(std::f32::consts::PI, progress));
                    mul(self.peak, mul(0.5, add(1.0, wave)))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: ScheduleKind) -> Schedule {
        Schedule {
            kind,
            peak: 0.5,
            warmup_steps: 4,
            total_steps: 12,
        }
    }

    #[test]
    fn the_warm_up_rises_to_the_peak() {
        for kind in [
            ScheduleKind::Constant,
            ScheduleKind::Linear,
            ScheduleKind::Cosine,
        ] {
            let rates: Vec<f32> = (0..5).map(|step| schedule(kind).rate(step)).collect();
            assert_eq!(rates, [0.125, 0.25, 0.375, 0.5, 0.5]);
        }
    }

    #[test]
    fn the_rate_falls_as_its_kind_says() {
        assert_eq!(schedule(ScheduleKind::Constant).rate(11), 0.5);
        assert_eq!(schedule(ScheduleKind::Linear).rate(8), 0.25);
        assert_eq!(schedule(ScheduleKind::Linear).rate(12), 0.0);
        assert!((schedule(ScheduleKind::Cosine).rate(8) - 0.25).abs() < 1e-6);
        assert!(schedule(ScheduleKind::Cosine).rate(12).abs() < 1e-6);
        assert!(schedule(ScheduleKind::Cosine).rate(40).abs() < 1e-6);
    }
}
