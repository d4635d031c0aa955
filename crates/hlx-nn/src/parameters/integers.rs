//! The matrices of a model as integers, prepared once for all passes of a step.

use hlx_autograd::WeightIntegers;
use hlx_core::Arithmetic;

use super::Weights;
use crate::Result;

/// The integers of the matrices that a model's layers multiply by, in the `integer` arithmetic.
#[derive(Debug)]
pub struct ModelIntegers {
    /// Those of a matrix, and whether training changes it.
    matrices: Vec<(WeightIntegers, bool)>,
}

impl ModelIntegers {
    /// Allocates and computes the integers of a model's matrices; none in the `portable` arithmetic.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(weights: &Weights) -> Result<Self> {
        let mut matrices = Vec::new();
        if weights.device().arithmetic() == Arithmetic::Integer {
            for parameter in weights
                .parameters()
                .iter()
                .filter(|one| one.is_multiplied())
            {
                let integers = WeightIntegers::new(&parameter.tensor()?)?;
                matrices.push((integers, parameter.requires_grad()));
            }
        }
        Ok(Self { matrices })
    }

    /// Whether there are any that training changes.
    pub fn change(&self) -> bool {
        self.matrices.iter().any(|(_, is_trained)| *is_trained)
    }

    /// Computes the integers of the matrices that training changes anew.
    ///
    /// # Errors
    /// What the device reports.
    pub fn update(&self) -> Result<()> {
        let trained = self.matrices.iter().filter(|(_, is_trained)| *is_trained);
        for (integers, _) in trained {
            integers.update()?;
        }
        Ok(())
    }

    /// Has the pass that is being recorded read these integers ([`WeightIntegers::use_in_recording`]).
    pub fn use_in_recording(&self) {
        for (integers, _) in &self.matrices {
            integers.use_in_recording();
        }
    }
}
