//! Parameter groups: which parameters have a rate and a decay of their own.

use hlx_core::{ALIGNMENT_WORDS, Buffer};
use hlx_kernels::optimizer::SKIPPED;

use super::checks::{refused, within};
use crate::{ParameterSet, Result, Weights};

/// Parameters that share a learning rate and a weight decay, as a `dict` of PyTorch's
/// `param_groups`.
///
/// A parameter that several groups have belongs to the first of them; one that none has goes by the
/// optimizer's own numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGroup {
    /// Which: [`Weights::matching`] and [`Weights::select`] find them.
    pub parameters: ParameterSet,
    /// Multiplies the learning rate of every step; 0 leaves the parameters as they are.
    pub lr_factor: f64,
    /// The weight decay, if it is not the optimizer's.
    pub weight_decay: Option<f64>,
}

impl ParameterGroup {
    /// A group with the optimizer's own numbers.
    pub fn new(parameters: ParameterSet) -> Self {
        Self {
            parameters,
            lr_factor: 1.0,
            weight_decay: None,
        }
    }

    /// The group with the learning rate times `factor`.
    #[must_use]
    pub fn with_lr_factor(self, factor: f64) -> Self {
        Self {
            lr_factor: factor,
            ..self
        }
    }

    /// The group with a weight decay of its own.
    #[must_use]
    pub fn with_weight_decay(self, decay: f64) -> Self {
        Self {
            weight_decay: Some(decay),
            ..self
        }
    }

    /// Fails for numbers out of range, and for no parameters or those of another model.
    fn check(&self, number: usize, n_parameters: usize) -> Result<()> {
        for (what, value) in [
            ("lr_factor", self.lr_factor),
            ("weight_decay", self.weight_decay.unwrap_or(0.0)),
        ] {
            within(
                &format!("group {number}: {what}"),
                value,
                0.0,
                f64::INFINITY,
            )?;
        }
        let indices = self.parameters.indices();
        if indices.last().is_none_or(|last| *last >= n_parameters) {
            let reason = format!(
                "group {number}: its parameters are {indices:?}, expected some of {n_parameters}"
            );
            return Err(refused(reason));
        }
        Ok(())
    }
}

/// The group of each parameter of a weights.
#[derive(Debug)]
pub struct Assignment {
    groups: Vec<ParameterGroup>,
    /// For each parameter, in the order of declaration: its group's place, and past the last the
    /// optimizer's own numbers.
    of_parameter: Vec<usize>,
}

impl Assignment {
    /// Finds the group of each parameter.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range and sets without
    /// parameters or of another model.
    pub fn new(weights: &Weights, groups: &[ParameterGroup]) -> Result<Self> {
        let n_parameters = weights.parameters().len();
        for (number, group) in groups.iter().enumerate() {
            group.check(number, n_parameters)?;
        }
        let group_of = |parameter_idx: usize| {
            let has = |group: &ParameterGroup| group.parameters.contains(parameter_idx);
            groups.iter().position(has).unwrap_or(groups.len())
        };
        Ok(Self {
            groups: groups.to_vec(),
            of_parameter: (0..n_parameters).map(group_of).collect(),
        })
    }

    /// Gives a group other numbers.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range or a group that there is not.
    pub fn set(&mut self, group: usize, lr_factor: f64, weight_decay: Option<f64>) -> Result<()> {
        let (n_groups, n_parameters) = (self.groups.len(), self.of_parameter.len());
        let Some(place) = self.groups.get_mut(group) else {
            return Err(refused(format!("group {group} of {n_groups}")));
        };
        let changed = ParameterGroup {
            lr_factor,
            weight_decay,
            ..place.clone()
        };
        changed.check(group, n_parameters)?;
        *place = changed;
        Ok(())
    }

    /// The number of groups, that of the optimizer's own numbers included.
    pub fn len(&self) -> usize {
        self.groups.len() + 1
    }

    /// The group of each parameter, in the order of declaration.
    pub fn of_parameters(&self) -> &[usize] {
        &self.of_parameter
    }

    /// The factor of the rate and the weight decay of a group.
    pub fn numbers(&self, group: usize, weight_decay: f64) -> (f64, f64) {
        match self.groups.get(group) {
            Some(group) => (group.lr_factor, group.weight_decay.unwrap_or(weight_decay)),
            None => (1.0, weight_decay),
        }
    }
}

/// Uploads the row of each block of the words that this process updates; `row_of` is the row of a
/// parameter, `None` for one that the step leaves as it is, as it does frozen ones.
pub(super) fn upload_rows(
    weights: &Weights,
    row_of: impl Fn(usize) -> Option<u32>,
) -> Result<Buffer> {
    let n_blocks = weights.n_words().div_ceil(ALIGNMENT_WORDS);
    let mut rows = vec![SKIPPED; n_blocks];
    let spans = weights.spans("");
    for (parameter_idx, span) in spans.iter().enumerate() {
        let begin = span.offset / ALIGNMENT_WORDS;
        let n = span.shape.iter().product::<usize>();
        let trained = weights.parameters()[parameter_idx].requires_grad();
        let row = row_of(parameter_idx).filter(|_| trained);
        let row = row.unwrap_or(SKIPPED);
        rows[begin..begin + n.div_ceil(ALIGNMENT_WORDS)].fill(row);
    }
    let updated = weights.updated();
    let blocks = updated.start / ALIGNMENT_WORDS..updated.end.div_ceil(ALIGNMENT_WORDS);
    Ok(weights.device().buffer_of::<u32>(&rows[blocks])?)
}
