//! The matrices of a model, prepared once for all passes of a step.

use hlx_kernels::product::PreparedWeight;

use super::Weights;
use crate::Result;

/// What products read of the matrices that a model's layers multiply by, where that is not their floats: none in the
/// `portable` arithmetic.
#[derive(Debug)]
pub struct PreparedWeights {
    /// A matrix, and whether training changes it.
    matrices: Vec<(PreparedWeight, bool)>,
}

impl PreparedWeights {
    /// Allocates and computes what products read of a model's matrices.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(weights: &Weights) -> Result<Self> {
        let mut matrices = Vec::new();
        let parameters = weights.parameters().iter();
        for parameter in parameters.filter(|one| one.is_multiplied()) {
            let weight = parameter.tensor()?;
            let (device, values) = (weights.device(), weight.buffer()?);
            let prepared = PreparedWeight::new(device, &values, weight.shape())?;
            matrices.extend(prepared.map(|prepared| (prepared, parameter.requires_grad())));
        }
        Ok(Self { matrices })
    }

    /// Whether there are any that training changes.
    pub fn change(&self) -> bool {
        self.matrices.iter().any(|(_, is_trained)| *is_trained)
    }

    /// Prepares again the matrices that training changes.
    ///
    /// # Errors
    /// What the device reports.
    pub fn update(&self) -> Result<()> {
        let trained = self.matrices.iter().filter(|(_, is_trained)| *is_trained);
        for (prepared, _) in trained {
            prepared.update()?;
        }
        Ok(())
    }

    /// Has the pass that is being recorded read these ([`PreparedWeight::use_in_recording`]).
    pub fn use_in_recording(&self) {
        for (prepared, _) in &self.matrices {
            prepared.use_in_recording();
        }
    }
}
