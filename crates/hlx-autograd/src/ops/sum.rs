//! Sum and mean of all elements.

use hlx_core::{Buffer, Context};
use hlx_kernels::elementwise::scale_by;
use hlx_kernels::reduce::sum;

use crate::{DataType, Gradient, Result, Tensor};

/// The bits of 1.0.
const ONE: u32 = 0x3f80_0000;

impl Tensor {
    /// Sums all elements into a scalar: rows of 4096 by the lane rule, until one is left.
    ///
    /// # Errors
    /// What the device reports.
    pub fn sum(&self) -> Result<Tensor> {
        self.expect_type("sum", "the input", DataType::F32)?;
        let ctx = self.context();
        let total = ctx.alloc(1)?;
        sum(ctx, self.buffer(), &total)?;
        let x = self.input();
        Tensor::from_operation("sum", &[self], total, &[], move |pass, dy| {
            let dx = spread(pass.context(), dy.buffer(), x.n_elements())?;
            pass.add(&x, Gradient::owned(dx))
        })
    }

    /// Computes the mean of all elements: their sum times 1 / n.
    ///
    /// # Errors
    /// What the device reports.
    pub fn mean(&self) -> Result<Tensor> {
        let total = self.sum()?;
        total.scale(1.0 / self.n_elements() as f32)
    }
}

/// Makes `n` copies of a value in device memory.
fn spread(ctx: &Context, value: &Buffer, n: usize) -> Result<Buffer> {
    let ones = ctx.alloc(n)?;
    ctx.fill(&ones, ONE)?;
    let out = ctx.alloc(n)?;
    scale_by(ctx, &ones, value, &out)?;
    Ok(out)
}

/// Sums a loss's rows and multiplies the sum by a factor in device memory.
pub(super) fn scaled_sum(ctx: &Context, rows: &Buffer, factor: &Buffer) -> Result<Buffer> {
    let total = ctx.alloc(1)?;
    sum(ctx, rows, &total)?;
    let out = ctx.alloc(1)?;
    scale_by(ctx, &total, factor, &out)?;
    Ok(out)
}

/// Computes the factor of a loss's derivative: its own factor times the upstream gradient.
pub(super) fn upstream_factor(ctx: &Context, factor: &Buffer, dy: &Gradient) -> Result<Buffer> {
    let out = ctx.alloc(1)?;
    scale_by(ctx, factor, dy.buffer(), &out)?;
    Ok(out)
}

/// Makes the one-element buffer of a factor on the host, without an upload.
pub(super) fn constant(ctx: &Context, value: f32) -> Result<Buffer> {
    let out = ctx.alloc(1)?;
    ctx.fill(&out, value.to_bits())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("sum", &[input(1, &[3, 5])], |x| x[0].mul(&x[0])?.sum());
        check("mean", &[input(1, &[3, 5])], |x| x[0].mul(&x[0])?.mean());
    }
}
