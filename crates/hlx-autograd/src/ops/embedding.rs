//! The lookup of rows by id.

use hlx_kernels::embedding::{
    embedding_backward, embedding_backward_sum, embedding_forward, sums_shards,
};

use crate::{DType, Result, Tensor};

impl Tensor {
    /// Looks up a row of `weight` (\[V, C\]) for each of these ids: \[..\] to \[.., C\], as
    /// `torch.nn.functional.embedding`.
    ///
    /// # Errors
    /// [`AutogradError::DType`](crate::AutogradError::DType) unless this tensor holds ids,
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) unless `weight` is a matrix.
    #[doc = example!(
        x: "let ids = Tensor::ids(&ctx, &[1, 0, 1], &[3])?;",
        "assert_eq!(ids.embedding(&x)?.to_vec()?[..3], [4.0, 5.0, 6.0]);"
    )]
    pub fn embedding(&self, weight: &Tensor) -> Result<Tensor> {
        self.same_context("embedding", [("weight", Some(weight))])?;
        self.expect_type("embedding", "the index", DType::U32)?;
        weight.expect_type("embedding", "weight", DType::F32)?;
        let &[vocabulary, width] = weight.shape() else {
            return Err(weight.shape_error("embedding", "weight", "[vocabulary, width]"));
        };
        let (ctx, n) = (self.context(), self.n_elements());
        let (ids, y) = (self.buffer()?, ctx.alloc(n * width)?);
        embedding_forward(ctx, &ids, &weight.buffer()?, &y, n, vocabulary, width)?;
        let shape = [self.shape(), &[width]].concat();
        let (ids, batch, table) = (self.keep(&ids), self.batch(), weight.input());
        let y = Tensor::from_operation("embedding", &[weight], y, &shape, move |pass, dy| {
            let (shards, dy, ids) = (pass.shards(), &dy.buffer()?, ids.values()?);
            let rows = n / shards;
            if sums_shards(pass.context(), shards, vocabulary)
                && let Some(target) = pass.open_sum(&table, batch)?
            {
                let ctx = pass.context();
                embedding_backward_sum(ctx, &ids, dy, &target, shards, rows, vocabulary, width)?;
                return Ok(());
            }
            pass.parameter(&table, batch, |ctx, target, shards| {
                let (out, accumulate) = (&target.buffer, target.accumulate);
                embedding_backward(
                    ctx, &ids, dy, out, shards, rows, vocabulary, width, accumulate,
                )
            })
        })?;
        Ok(y.with_samples_of(self.samples()))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, ids, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let tokens = ids(1, 5, &[4, 3]);
        check("embedding", &[input(2, &[5, 6])], move |x| {
            tokens.embedding(&x[0])
        });
    }

    #[test]
    fn values_are_no_ids() {
        let text = message(input(1, &[3]).embedding(&input(2, &[5, 6])));
        assert_eq!(
            text,
            "embedding: the index has elements of f32, expected u32"
        );
    }
}
