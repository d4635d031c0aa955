//! Sets of a model's parameters, such as the groups of an optimizer.

use std::ops::Range;

use super::{Parameter, Weights};
use crate::Result;
use crate::error::NnError;

/// Some of the parameters of a model, by their index in [`Weights::parameters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParameterSet(Vec<usize>);

impl ParameterSet {
    /// The indices in rising order.
    pub fn indices(&self) -> &[usize] {
        &self.0
    }

    /// Whether the parameter of an index is one of them.
    pub fn contains(&self, parameter_idx: usize) -> bool {
        self.0.binary_search(&parameter_idx).is_ok()
    }

    /// Those of either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut all = [&self.0[..], &other.0].concat();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    /// Those that the other set does not have.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let others = self.0.iter().filter(|&&index| !other.contains(index));
        Self(others.copied().collect())
    }
}

impl Weights {
    /// All parameters.
    pub fn all(&self) -> ParameterSet {
        self.select(|_| true)
    }

    /// The parameters that a condition holds for, such as `|p| p.shape().len() >= 2`.
    pub fn select(&self, condition: impl Fn(&Parameter) -> bool) -> ParameterSet {
        let parameters = self.parameters().iter().enumerate();
        let chosen = parameters.filter(|(_, parameter)| condition(parameter));
        ParameterSet(chosen.map(|(index, _)| index).collect())
    }

    /// Says whether training changes the parameters of a set: see [`Parameter::requires_grad_`].
    pub fn requires_grad_(&self, set: &ParameterSet, requires_grad: bool) {
        let chosen = set
            .indices()
            .iter()
            .filter_map(|&index| self.parameters().get(index));
        chosen.for_each(|parameter| parameter.requires_grad_(requires_grad));
    }

    /// The parameters whose whole name a pattern describes; `*` stands for any letters, dots too:
    /// `*.bias`, `head.weight`, and `blocks.0.*` for all of the layer that was declared as `blocks.0`.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] if no parameter has such a name.
    pub fn matching(&self, pattern: &str) -> Result<ParameterSet> {
        let set = self.select(|parameter| matches(pattern, parameter.name()));
        if set.0.is_empty() {
            let reason = format!("`{pattern}` is the name of none");
            return Err(NnError::mismatch("parameters", reason));
        }
        Ok(set)
    }

    /// The words that the set's parameters have in a flat buffer in the layout of the values, with the
    /// padding behind each; neighbours are one range.
    pub fn ranges(&self, set: &ParameterSet) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for &index in &set.0 {
            let Range { start, end } = self.range(index);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }
}

/// Whether a pattern with `*` for any letters describes a whole name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| matches(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("fc.weight", "fc.weight", true),
            ("fc.weight", "fc.weights", false),
            ("*.bias", "blocks.0.norm.bias", true),
            ("*.bias", "bias", false),
            ("blocks.*.weight", "blocks.0.mlp.weight", true),
            ("blocks.*.weight", "block.0.weight", false),
            ("a*b*c", "abbcbc", true),
            ("a*b*c", "acb", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
