//! The rate that falls when a measured value has stopped to improve.

use serde::{Deserialize, Serialize};

use super::{at_least_zero, refused};
use crate::Result;

/// The numbers of [`Plateau`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauConfig {
    /// Larger values are better, as an accuracy's; else smaller ones, as a loss's.
    pub maximize: bool,
    /// What the rate is multiplied by.
    pub factor: f64,
    /// Observations without an improvement that are waited for.
    pub patience: u64,
    /// The least improvement that counts.
    pub threshold: f64,
    /// The threshold is a difference; else a part of the best value.
    pub absolute: bool,
    /// Observations after a fall that count as good.
    pub cooldown: u64,
    /// The least rate.
    pub min_lr: f64,
    /// A fall by no more than this is not made.
    pub eps: f64,
}

impl Default for PlateauConfig {
    /// PyTorch's: a loss, factor 0.1 after 10 observations without an improvement by 1e-4 of the
    /// best.
    fn default() -> Self {
        Self {
            maximize: false,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            absolute: false,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        }
    }
}

/// Where a [`Plateau`] is; a part of a run's checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlateauState {
    /// The present rate.
    pub rate: f64,
    /// The best value so far; `None` before the first.
    pub best: Option<f64>,
    /// Observations since the last improvement or fall.
    pub n_bad: u64,
    /// Observations that still count as good.
    pub cooldown: u64,
}

/// A rate that follows a measured value, as `torch.optim.lr_scheduler.ReduceLROnPlateau`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    config: PlateauConfig,
    state: PlateauState,
}

impl Plateau {
    /// Begins with a rate.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for a factor that is not below 1 and other
    /// numbers out of range.
    pub fn new(rate: f64, config: PlateauConfig) -> Result<Self> {
        if !(0.0..1.0).contains(&config.factor) {
            let reason = format!(
                "factor is {}, expected at least 0 and below 1",
                config.factor
            );
            return Err(refused(reason));
        }
        at_least_zero("threshold", config.threshold)?;
        at_least_zero("min_lr", config.min_lr)?;
        at_least_zero("eps", config.eps)?;
        let state = PlateauState {
            rate,
            best: None,
            n_bad: 0,
            cooldown: 0,
        };
        Ok(Self { config, state })
    }

    /// The present rate.
    pub fn rate(&self) -> f64 {
        self.state.rate
    }

    /// What a checkpoint stores.
    pub fn state(&self) -> PlateauState {
        self.state
    }

    /// Goes on from a state that a checkpoint has stored.
    pub fn set_state(&mut self, state: PlateauState) {
        self.state = state;
    }

    /// Takes a new value (an epoch's loss, for example); the rate falls if too many before it were
    /// no improvement. NaN is none.
    pub fn observe(&mut self, value: f64) {
        let (config, state) = (&self.config, &mut self.state);
        if improves(config, value, state.best) {
            state.best = Some(value);
            state.n_bad = 0;
        } else {
            state.n_bad += 1;
        }
        if state.cooldown > 0 {
            state.cooldown -= 1;
            state.n_bad = 0;
        }
        if state.n_bad > config.patience {
            let lower = (state.rate * config.factor).max(config.min_lr);
            if state.rate - lower > config.eps {
                state.rate = lower;
            }
            state.cooldown = config.cooldown;
            state.n_bad = 0;
        }
    }
}

/// Whether a value improves on the best by more than the threshold.
fn improves(config: &PlateauConfig, value: f64, best: Option<f64>) -> bool {
    let Some(best) = best else {
        return !value.is_nan();
    };
    match (config.maximize, config.absolute) {
        (false, false) => value < best * (1.0 - config.threshold),
        (false, true) => value < best - config.threshold,
        (true, false) => value > best * (1.0 + config.threshold),
        (true, true) => value > best + config.threshold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_that_does_not_lower_is_refused() {
        let config = PlateauConfig {
            factor: 1.0,
            ..PlateauConfig::default()
        };
        let error = Plateau::new(0.1, config).expect_err("refused");
        let expected = "schedule: factor is 1, expected at least 0 and below 1";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_plateau_goes_on_from_its_state() -> Result<()> {
        let config = PlateauConfig {
            patience: 1,
            cooldown: 1,
            ..PlateauConfig::default()
        };
        let mut whole = Plateau::new(0.1, config)?;
        let mut resumed = Plateau::new(0.1, config)?;
        for (place, value) in [1.0, 0.9, 0.95, f64::NAN, 0.9, 0.9, 0.9, 0.9]
            .iter()
            .enumerate()
        {
            whole.observe(*value);
            resumed.observe(*value);
            if place == 4 {
                let state = resumed.state();
                resumed = Plateau::new(0.7, config)?;
                resumed.set_state(state);
            }
            assert_eq!(whole, resumed);
        }
        assert!(whole.rate() < 0.002, "fell twice: {}", whole.rate());
        Ok(())
    }
}
