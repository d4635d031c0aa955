//! Conversions between types of elements.

use hlx_kernels::elementwise::copy_strided;

use crate::{AutogradError, DType, Result, Tensor};

impl Tensor {
    /// Converts the elements, as `torch.Tensor.to(dtype)`: floats to the nearest, ties to even; floats
    /// to integers toward zero, saturated, NaN to 0; anything to `bool` by whether it is other than 0.
    /// The gradient of a float is converted back.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(
        x: "assert_eq!(x.to_dtype(DType::U8)?.to_vec::<u8>()?, [1, 2, 3, 4, 5, 6]);"
    )]
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        let device = self.device();
        let out = device.alloc_typed(dtype, self.n_elements())?;
        copy_strided(device, self.operand(), &out)?;
        if !(dtype.is_float() && self.dtype().is_float()) {
            let converted = Tensor::from_buffer(device, out, self.shape())?;
            return Ok(converted.with_samples_of(self.samples()));
        }
        let (x, from) = (self.input(), self.dtype());
        Tensor::of_rule(
            "to_dtype",
            &[self],
            (out, self.shape()),
            move |pass, dy, _| pass.add_tensor(&x, &dy.to_dtype(from)?),
        )
    }

    /// Views whole numbers of 32 bits as the other type of them, without a copy: a negative number is one from 2^31
    /// on. As `torch.Tensor.view(dtype)`, for these two types alone.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for other types.
    #[doc = example!(
        x: "let x = x.to_dtype(hlx_core::DType::I32)?.neg()?;",
        "assert_eq!(x.view_dtype(hlx_core::DType::U32)?.to_vec::<u32>()?[0], u32::MAX);"
    )]
    pub fn view_dtype(&self, dtype: DType) -> Result<Tensor> {
        const WHOLE: [DType; 2] = [DType::I32, DType::U32];
        if !WHOLE.contains(&dtype) || !WHOLE.contains(&self.dtype()) {
            let reason = format!("{} as {dtype}, expected i32 and u32", self.dtype());
            return Err(AutogradError::Argument {
                op: "view_dtype",
                reason,
            });
        }
        self.retyped(dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::input;

    #[test]
    fn a_gradient_is_converted_back() -> Result<()> {
        let x = input(1, &[3]).with_gradient();
        let half = x.to_dtype(DType::F16)?;
        half.mul(&half)?.to_dtype(DType::F32)?.sum()?.backward()?;
        let found = x.grad().expect("a gradient").to_vec::<f32>()?;
        for (slope, value) in found.iter().zip(x.to_vec::<f32>()?) {
            assert!((slope - 2.0 * value).abs() < 4e-3, "{slope} at {value}");
        }
        Ok(())
    }
}
