//! What operations check of their arguments, with errors that name the operation and the argument.

use hlx_core::DType;
use hlx_kernels::product::check_arithmetic;

use crate::error::AutogradError;
use crate::{Result, Tensor};

impl Tensor {
    /// Checks that an operation's other arguments are of this tensor's device.
    pub(crate) fn same_device<'a>(
        &self,
        op: &'static str,
        others: impl IntoIterator<Item = (&'static str, Option<&'a Tensor>)>,
    ) -> Result<()> {
        for (argument, other) in others {
            let Some(other) = other else {
                continue;
            };
            check_arithmetic(op, argument, [other.device(), self.device()])?;
            if other.device().is_same(self.device()) {
                continue;
            }
            return Err(AutogradError::Device {
                op,
                argument,
                found: other.device().label().to_owned(),
                expected: self.device().label().to_owned(),
            });
        }
        Ok(())
    }

    pub(crate) fn expect_type(
        &self,
        op: &'static str,
        argument: &'static str,
        expected: DType,
    ) -> Result<()> {
        let found = self.dtype();
        if found == expected {
            return Ok(());
        }
        Err(AutogradError::DType {
            op,
            argument,
            found,
            expected,
        })
    }

    /// Checks that this argument holds values of the given shape.
    pub(crate) fn expect_shape(
        &self,
        op: &'static str,
        argument: &'static str,
        expected: &[usize],
    ) -> Result<()> {
        self.expect_type(op, argument, DType::F32)?;
        if self.shape() == expected {
            return Ok(());
        }
        Err(self.shape_error(op, argument, format!("{expected:?}")))
    }

    pub(crate) fn shape_error(
        &self,
        op: &'static str,
        argument: &'static str,
        expected: impl Into<String>,
    ) -> AutogradError {
        let found = self.shape().to_vec();
        AutogradError::Shape {
            op,
            argument,
            found,
            expected: expected.into(),
        }
    }

    /// Splits the shape into rows (all but the last extent) and columns (the last).
    pub(crate) fn rows_and_columns(&self, op: &'static str) -> Result<(usize, usize)> {
        self.expect_type(op, "the input", DType::F32)?;
        match self.shape().split_last() {
            Some((&columns, leading)) => Ok((leading.iter().product(), columns)),
            None => Err(self.shape_error(op, "the input", "at least one dimension")),
        }
    }
}

/// Checks that a shape has as many elements as there are values.
pub(crate) fn check_count(op: &'static str, found: usize, shape: &[usize]) -> Result<()> {
    if hlx_core::sizes::checked_elements(shape) == Some(found) {
        return Ok(());
    }
    Err(AutogradError::Shape {
        op,
        argument: "the tensor",
        found: shape.to_vec(),
        expected: format!("one of {found} elements"),
    })
}
