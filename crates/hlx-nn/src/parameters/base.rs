//! The frozen base of adapters, which lies apart from the weights that are trained (QLoRA).

use super::Parameter;

/// The frozen parameters of a model, which lie outside of its [`Weights`](super::Weights).
#[derive(Debug)]
pub struct FrozenBase {
    pub(super) parameters: Vec<Parameter>,
    /// The place of each other parameter among all that were declared.
    pub(super) places: Vec<usize>,
    pub(super) n_bytes: usize,
}

impl FrozenBase {
    /// The parameters, in the order of declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The parameter of a name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|one| one.name() == name)
    }

    /// The bytes that they take.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// The number of their elements.
    pub fn n_elements(&self) -> usize {
        self.parameters.iter().map(Parameter::n_elements).sum()
    }
}
