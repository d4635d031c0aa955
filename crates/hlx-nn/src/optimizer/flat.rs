//! The optimizer whose step is one launch over the flat buffers; its rule says which.

use std::fmt::Debug;

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{Groups, Hyper, Update};

use super::Optimizer;
use super::checks::refused;
use super::common::Common;
use super::drive::{Drive, updated};
use super::groups::upload_rows;
use crate::{Result, Weights};

/// A rule that updates every element on its own: an optimizer's configuration and its kernel.
pub trait UpdateRule: Debug {
    /// The name of the algorithm, which is part of its saved state.
    const NAME: &'static str;

    /// The numbers that every rule has.
    fn common(&self) -> &Common;

    /// Fails for numbers of its own that are out of range.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) with the number and what was expected.
    fn check(&self) -> Result<()>;

    /// The state's buffers: their names and the value that their elements begin with.
    fn state(&self) -> Vec<(&'static str, f32)>;

    /// The numbers of the step counted from 1. Its number, the weight decay, the factor of the
    /// group and the clip are filled in later.
    fn hyper(&self, step: u64, learning_rate: f64) -> Hyper;

    /// Launches the step; the state's buffers are in the order of [`UpdateRule::state`].
    ///
    /// # Errors
    /// What the device reports.
    fn launch(&self, device: &Device, update: &Update<'_>, state: &[Buffer]) -> Result<()>;
}

/// An optimizer by a rule of single elements: one launch updates all parameters of all groups.
#[derive(Debug)]
pub struct FlatOptimizer<R> {
    rule: R,
    drive: Drive,
    /// The group of each block; `None` where all parameters are updated by the same numbers.
    rows: Option<Buffer>,
    state: Vec<Buffer>,
}

impl<R: UpdateRule> FlatOptimizer<R> {
    /// Makes the optimizer of a model's weights, with its first state.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range or a group
    /// without parameters, and what the device reports.
    pub fn new(weights: &Weights, rule: R) -> Result<Self> {
        rule.check()?;
        let common = rule.common();
        common.check()?;
        let drive = Drive::new(weights, common)?;
        let rows = match common.groups.is_empty() && !weights.has_frozen() {
            true => None,
            false => Some(upload_rows(weights, |parameter_idx| {
                Some(drive.assignment.of_parameters()[parameter_idx] as u32)
            })?),
        };
        let state = rule.state().into_iter();
        let state = state.map(|(_, value)| filled(weights, value));
        Ok(Self {
            state: state.collect::<Result<_>>()?,
            rule,
            drive,
            rows,
        })
    }

    /// The rule and its numbers.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    /// Gives the rule other numbers from the next step on; the groups stay.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range, and for a rule with another
    /// state, such as SGD with a momentum after one without.
    pub fn set_rule(&mut self, rule: R) -> Result<()> {
        rule.check()?;
        rule.common().check()?;
        let names =
            |rule: &R| -> Vec<&str> { rule.state().iter().map(|(name, _)| *name).collect() };
        let (found, expected) = (names(&rule), names(&self.rule));
        if found != expected {
            let reason = format!("the state would be {found:?}, and is {expected:?}");
            return Err(refused(reason));
        }
        self.rule = rule;
        Ok(())
    }
}

/// A state's buffer of one value, zero between the parameters.
fn filled(weights: &Weights, value: f32) -> Result<Buffer> {
    let buffer = weights.state_zeros()?;
    if value != 0.0 {
        let parameters = weights.parameters().iter();
        let values: Vec<Vec<f32>> = parameters.map(|p| vec![value; p.n_elements()]).collect();
        weights.upload_updated(&buffer, &values)?;
    }
    Ok(buffer)
}

impl<R: UpdateRule> Optimizer for FlatOptimizer<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn drive(&self) -> &Drive {
        &self.drive
    }

    fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        let base = self.rule.hyper(self.drive.steps + 1, learning_rate);
        let common = self.rule.common();
        self.drive
            .upload_groups(common, |lr_factor, weight_decay| Hyper {
                learning_rate: base.learning_rate * lr_factor,
                weight_decay,
                ..base
            })
    }

    fn update(&self, weights: &Weights) -> Result<()> {
        self.drive.measure(weights)?;
        let updated = updated(weights)?;
        let update = Update {
            groups: self.rows.as_ref().map_or(Groups::One(0), Groups::ByBlock),
            ..self.drive.update(&updated)
        };
        if !update.params.is_empty() {
            self.rule.launch(weights.device(), &update, &self.state)?;
        }
        self.drive.changed(weights);
        Ok(())
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        let names = self.rule.state().into_iter().map(|(name, _)| name);
        names.zip(&self.state).collect()
    }
}
