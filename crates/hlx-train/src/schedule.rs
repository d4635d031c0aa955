//! The learning rate of each step of a run: the warm-up, then the schedule of the configuration.

use anyhow::Result;
use hlx_nn::{Plateau, PlateauState, Schedule};

use crate::config::Config;

/// The rate as a function of the step, and for a plateau of the epochs' losses.
#[derive(Clone, Debug)]
pub struct RunSchedule {
    peak: f64,
    warmup_steps: u64,
    total_steps: u64,
    course: Course,
}

/// How the rate continues after the warm-up.
#[derive(Clone, Debug)]
enum Course {
    /// By the step alone; the warm-up is a part of it.
    Steps(Schedule),
    /// By the losses.
    Losses(Plateau),
}

impl RunSchedule {
    /// The schedule of a run of `total_steps`.
    ///
    /// # Errors
    /// Numbers out of range.
    pub fn new(config: &Config, total_steps: u64) -> Result<Self> {
        let (train, steps) = (&config.train, config.train.warmup_steps);
        let rest = total_steps.saturating_sub(steps).max(1);
        let course = match config.schedule_over(rest) {
            Some(then) => {
                then.check()?;
                Course::Steps(Schedule::Warmup {
                    steps,
                    then: Box::new(then),
                })
            }
            None => Course::Losses(Plateau::new(train.learning_rate, config.plateau())?),
        };
        Ok(Self {
            peak: train.learning_rate,
            warmup_steps: steps,
            total_steps,
            course,
        })
    }

    /// The rate of the step of this number, counted from 0; past the run's end that of its end.
    pub fn rate(&self, step: u64) -> f64 {
        let step = step.min(self.total_steps);
        match &self.course {
            Course::Steps(schedule) => schedule.rate(self.peak, step),
            Course::Losses(plateau) => {
                let warmup = Schedule::Warmup {
                    steps: self.warmup_steps,
                    then: Box::new(Schedule::Constant),
                };
                warmup.rate(plateau.rate(), step)
            }
        }
    }

    /// Takes the mean training loss of an epoch that has ended.
    pub fn end_epoch(&mut self, loss: Option<f64>) {
        if let (Course::Losses(plateau), Some(loss)) = (&mut self.course, loss) {
            plateau.observe(loss);
        }
    }

    /// What a checkpoint stores; `None` for a rate that depends on the step alone.
    pub fn state(&self) -> Option<PlateauState> {
        match &self.course {
            Course::Steps(_) => None,
            Course::Losses(plateau) => Some(plateau.state()),
        }
    }

    /// Continues from a checkpoint's state.
    pub fn set_state(&mut self, state: PlateauState) {
        if let Course::Losses(plateau) = &mut self.course {
            plateau.set_state(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: &str) -> RunSchedule {
        let text = format!(
            "[model]\npreset = \"tiny\"\n[data]\npath = \"a\"\nformat = \"text\"\n[train]\n\
             max_steps = 12\nwarmup_steps = 4\nlearning_rate = 0.5\nschedule = \"{kind}\"\n"
        );
        let config = Config::parse(&text, "a.toml", &[]).expect("good");
        RunSchedule::new(&config, 12).expect("good")
    }

    #[test]
    fn the_warm_up_rises_to_the_peak() {
        for kind in ["constant", "linear", "cosine", "plateau"] {
            let rates: Vec<f64> = (0..5).map(|step| schedule(kind).rate(step)).collect();
            assert_eq!(rates, [0.125, 0.25, 0.375, 0.5, 0.5]);
        }
    }

    #[test]
    fn the_rate_falls_as_its_kind_says() {
        assert_eq!(schedule("constant").rate(11), 0.5);
        assert_eq!(schedule("linear").rate(8), 0.25);
        assert_eq!(schedule("linear").rate(12), 0.0);
        assert!((schedule("cosine").rate(8) - 0.25).abs() < 1e-6);
        assert!(schedule("cosine").rate(12).abs() < 1e-6);
        assert!(schedule("cosine").rate(40).abs() < 1e-6);
        assert!(schedule("one_cycle").rate(11) < 1e-5);
        let wsd: Vec<f64> = (0..13).map(|step| schedule("wsd").rate(step)).collect();
        assert!(wsd[3..=11].iter().all(|&rate| rate == 0.5), "{wsd:?}");
        assert_eq!(wsd[12], 0.0);
    }

    #[test]
    fn a_plateaus_rate_follows_the_losses() {
        let mut plateau = schedule("plateau");
        for _ in 0..12 {
            plateau.end_epoch(Some(1.0));
        }
        assert!((plateau.rate(6) - 0.05).abs() < 1e-8);
        let mut resumed = schedule("plateau");
        resumed.set_state(plateau.state().expect("one"));
        assert_eq!(resumed.rate(6), plateau.rate(6));
        assert_eq!(schedule("cosine").state(), None);
    }
}
