//! Matrix products, batched or with one right matrix for all rows.

use hlx_core::Buffer;
use hlx_kernels::matmul::{MatMul, matmul};

use crate::{Backward, Batch, DType, Gradient, Input, Result, Tensor};

impl Tensor {
    /// Computes C = A B: A is \[.., M, K\]; B is \[K, N\], one matrix for all rows of A, or
    /// \[.., K, N\] with A's leading dimensions. Each element is one chain of fused
    /// multiply-adds over K in order.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        self.same_context("matmul", [("the right operand", Some(other))])?;
        self.expect_type("matmul", "the left operand", DType::F32)?;
        other.expect_type("matmul", "the right operand", DType::F32)?;
        let &[ref leading @ .., m, k] = self.shape() else {
            return Err(self.shape_error("matmul", "the left operand", "[.., M, K]"));
        };
        match other.shape() {
            &[rows, n] if rows == k => self.matmul_shared(other, n),
            [other_leading @ .., rows, n] if *rows == k && other_leading == leading => {
                self.matmul_batched(other, [leading.iter().product(), m, *n, k])
            }
            _ => {
                let expected = format!("[{k}, N] or {:?} before it", leading);
                Err(other.shape_error("matmul", "the right operand", expected))
            }
        }
    }

    /// One right matrix: all rows of A in one product, and a gradient by the shard rule.
    fn matmul_shared(&self, other: &Tensor, n: usize) -> Result<Tensor> {
        let (rows, k) = self.rows_and_columns("matmul")?;
        let ctx = self.context();
        let c = ctx.alloc(rows * n)?;
        matmul(
            ctx,
            &self.buffer()?,
            &other.buffer()?,
            None,
            &c,
            &MatMul::new(rows, n, k),
        )?;
        let mut shape = self.shape().to_vec();
        shape[self.shape().len() - 1] = n;
        let (batch, [a, b]) = (self.batch(), [self.input(), other.input()]);
        let [a_values, b_values] = factors(self, other)?;
        Tensor::from_operation("matmul", &[self, other], c, &shape, move |pass, dc| {
            let dc = dc.buffer()?;
            if let Some(a_values) = a_values {
                weight_gradient(pass, &b, (&a_values, k), (&dc, n), rows, batch)?;
            }
            let Some(b_values) = b_values else {
                return Ok(());
            };
            let da = pass.context().alloc(rows * k)?;
            let product = MatMul {
                trans_b: true,
                ..MatMul::new(rows, k, n)
            };
            matmul(pass.context(), &dc, &b_values, None, &da, &product)?;
            pass.add(&a, Gradient::owned(da))
        })
    }

    /// One right matrix a left one.
    fn matmul_batched(&self, other: &Tensor, [batch, m, n, k]: [usize; 4]) -> Result<Tensor> {
        let ctx = self.context();
        let c = ctx.alloc(batch * m * n)?;
        let product = batched(batch, [m, n, k], [m * k, k * n, m * n]);
        matmul(ctx, &self.buffer()?, &other.buffer()?, None, &c, &product)?;
        let mut shape = self.shape().to_vec();
        shape[self.shape().len() - 1] = n;
        let [a, b] = [self.input(), other.input()];
        let [a_values, b_values] = factors(self, other)?;
        Tensor::from_operation("matmul", &[self, other], c, &shape, move |pass, dc| {
            let (ctx, dc) = (pass.context().clone(), dc.buffer()?);
            if let Some(b_values) = b_values {
                let da = ctx.alloc(a.n_elements())?;
                let mut product = batched(batch, [m, k, n], [m * n, k * n, m * k]);
                product.trans_b = true;
                matmul(&ctx, &dc, &b_values, None, &da, &product)?;
                pass.add(&a, Gradient::owned(da))?;
            }
            if let Some(a_values) = a_values {
                let db = ctx.alloc(b.n_elements())?;
                let mut product = batched(batch, [k, n, m], [m * k, m * n, k * n]);
                product.trans_a = true;
                matmul(&ctx, &a_values, &dc, None, &db, &product)?;
                pass.add(&b, Gradient::owned(db))?;
            }
            Ok(())
        })
    }
}

/// The values of each factor that the other one's gradient reads.
fn factors(a: &Tensor, b: &Tensor) -> Result<[Option<Buffer>; 2]> {
    let read = |factor: &Tensor, other: &Tensor| {
        let read = other.requires_grad().then(|| factor.buffer());
        read.transpose()
    };
    Ok([read(a, b)?, read(b, a)?])
}

fn batched(batch: usize, [m, n, k]: [usize; 3], strides: [usize; 3]) -> MatMul {
    let [stride_a, stride_b, stride_c] = strides;
    MatMul {
        batch,
        stride_a,
        stride_b,
        stride_c,
        ..MatMul::new(m, n, k)
    }
}

/// Computes a weight's gradient leftᵀ right, \[M, N\], summed over `rows` rows: one chain a
/// shard over its rows in order, the shards pairwise. The operands come with their widths.
pub(super) fn weight_gradient(
    pass: &mut Backward<'_>,
    weight: &Input,
    (left, m): (&Buffer, usize),
    (right, n): (&Buffer, usize),
    rows: usize,
    batch: Batch,
) -> Result<()> {
    pass.parameter(weight, batch, |ctx, target, shards| {
        let per_shard = rows / shards;
        let strides = [per_shard * m, per_shard * n, m * n];
        let product = MatMul {
            trans_a: true,
            accumulate: target.accumulate,
            ..batched(shards, [m, n, per_shard], strides)
        };
        matmul(ctx, left, right, None, &target.buffer, &product)
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check("matmul", &[input(1, &[3, 5]), input(2, &[5, 4])], |x| {
            x[0].matmul(&x[1])
        });
        check("matmul", &[input(1, &[2, 3, 5]), input(2, &[5, 4])], |x| {
            x[0].matmul(&x[1])
        });
        check(
            "matmul",
            &[input(1, &[2, 3, 5]), input(2, &[2, 5, 4])],
            |x| x[0].matmul(&x[1]),
        );
    }

    #[test]
    fn a_weight_made_by_an_operation_has_its_gradient_passed_on() {
        check("matmul", &[input(1, &[3, 5]), input(2, &[5, 4])], |x| {
            x[0].matmul(&x[1].mul(&x[1])?)
        });
    }

    #[test]
    fn unequal_inner_extents_are_refused() {
        let text = message(input(1, &[3, 5]).matmul(&input(2, &[4, 5])));
        assert_eq!(
            text,
            "matmul: the right operand has shape [4, 5], expected [5, N] or [] before it"
        );
    }
}
