//! The lookup of rows by id.

use hlx_kernels::embedding::{
    EmbeddingSizes, embedding_backward, embedding_backward_sum, embedding_forward, sums_shards,
};
use hlx_kernels::product::blocks::block_rows;

use crate::{AutogradError, DType, Result, Tensor};

impl Tensor {
    /// Looks up a row of `weight` (\[V, C\]) for each of these ids: \[..\] to \[.., C\], as
    /// `torch.nn.functional.embedding`; see [`Tensor::embedding_padded`] for its `padding_idx`.
    ///
    /// # Errors
    /// [`AutogradError::DType`] unless this tensor holds ids,
    /// [`AutogradError::Shape`] unless `weight` is a matrix.
    #[doc = example!(
        x: "let ids = Tensor::from_slice::<u32>(&device, &[1, 0, 1], &[3])?;",
        "assert_eq!(ids.embedding(&x)?.to_vec::<f32>()?[..3], [4.0, 5.0, 6.0]);"
    )]
    pub fn embedding(&self, weight: &Tensor) -> Result<Tensor> {
        self.same_device("embedding", [("weight", Some(weight))])?;
        self.expect_type("embedding", "the index", DType::U32)?;
        let &[vocabulary, width] = weight.shape() else {
            return Err(weight.shape_error("embedding", "weight", "[vocabulary, width]"));
        };
        if let Some(blocks) = weight.in_blocks() {
            let y = self.device().alloc_shape(&[self.n_elements(), width])?;
            block_rows(self.device(), &self.buffer()?, blocks, &y)?;
            let y = Tensor::from_buffer(self.device(), y, &[self.shape(), &[width]].concat())?;
            return Ok(y.with_samples_of(self.samples()));
        }
        if weight.is_half() {
            // Rows are moved as they are; their gradients are added in f32.
            let rows = weight.index_select(0, &self.flatten(0, -1)?)?;
            let rows = rows.reshape(&[self.shape(), &[width]].concat())?;
            return Ok(rows.with_samples_of(self.samples()));
        }
        weight.expect_type("embedding", "weight", DType::F32)?;
        let (device, n) = (self.device(), self.n_elements());
        // Sizes that no memory holds are refused before the ids are copied.
        let y = device.alloc_shape(&[n, width])?;
        let ids = self.buffer()?;
        embedding_forward(device, &ids, &weight.buffer()?, &y, n, vocabulary, width)?;
        let shape = [self.shape(), &[width]].concat();
        let (ids, batch, table) = (self.save_values(&ids), self.batch(), weight.input());
        let y = Tensor::from_operation("embedding", &[weight], y, &shape, move |pass, dy| {
            let (shards, dy, ids) = (pass.shards(), &dy.buffer()?, ids.values()?);
            let sizes = |shards| EmbeddingSizes {
                shards,
                rows_per_shard: n / shards,
                vocabulary,
                width,
            };
            if sums_shards(pass.device(), shards, vocabulary)
                && let Some(target) = pass.open_sum(&table, batch)?
            {
                let device = pass.device();
                embedding_backward_sum(device, &ids, dy, &target, sizes(shards))?;
                return Ok(());
            }
            pass.parameter(&table, batch, |device, target, shards| {
                let (out, accumulate) = (&target.buffer, target.accumulate);
                embedding_backward(device, &ids, dy, out, sizes(shards), accumulate)
            })
        })?;
        Ok(y.with_samples_of(self.samples()))
    }

    /// As [`Tensor::embedding`], with a row that gets no gradient: `padding_idx`.
    ///
    /// # Errors
    /// As [`Tensor::embedding`], and [`AutogradError::Argument`] for a padding that is no row.
    #[doc = example!(
        x: "let (x, ids) = (x.with_gradient(), Tensor::from_slice::<u32>(&device, &[1, 0, 1], &[3])?);",
        "ids.embedding_padded(&x, 1)?.sum()?.backward()?;",
        "assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);"
    )]
    pub fn embedding_padded(&self, weight: &Tensor, padding_idx: usize) -> Result<Tensor> {
        const OP: &str = "embedding";
        let vocabulary = weight.shape().first().copied().unwrap_or(0);
        if padding_idx >= vocabulary {
            let reason = format!("padding_idx is {padding_idx}, expected less than {vocabulary}");
            return Err(AutogradError::Argument { op: OP, reason });
        }
        let rows = self.embedding(weight)?;
        let padding = Tensor::whole_u32(self.device(), padding_idx as u32)?;
        rows.detach()
            .where_(&self.eq(padding)?.unsqueeze(-1)?, &rows)
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
    fn rows_of_16_bits_have_gradients_summed_in_f32() -> crate::Result<()> {
        // 256 times 1 is 256 in bf16 only if the sum is not rounded on the way.
        let tokens = ids(1, 1, &[264]);
        let weight = input(2, &[2, 3])
            .to_dtype(crate::DType::BF16)?
            .with_gradient();
        let rows = tokens.embedding(&weight)?;
        assert_eq!(
            (rows.dtype(), rows.shape()),
            (crate::DType::BF16, &[264, 3][..])
        );
        rows.to_dtype(crate::DType::F32)?.sum()?.backward()?;
        let slopes = weight
            .grad()
            .expect("a gradient")
            .to_dtype(crate::DType::F32)?;
        assert_eq!(
            slopes.to_vec::<f32>()?,
            [264.0, 264.0, 264.0, 0.0, 0.0, 0.0]
        );
        Ok(())
    }

    #[test]
    fn a_padding_row_is_read_and_gets_no_gradient() -> crate::Result<()> {
        let (tokens, weight) = (ids(1, 5, &[40]), input(2, &[5, 3]).with_gradient());
        let rows = tokens.embedding_padded(&weight, 2)?;
        assert!(rows.equal(&tokens.embedding(&weight)?)?);
        rows.sum()?.backward()?;
        let slopes = weight.grad().expect("a gradient").to_vec::<f32>()?;
        assert!(slopes[6..9].iter().all(|slope| *slope == 0.0), "{slopes:?}");
        assert!(slopes[..6].iter().all(|slope| *slope >= 1.0), "{slopes:?}");
        let text = message(tokens.embedding_padded(&weight, 5));
        assert_eq!(text, "embedding: padding_idx is 5, expected less than 5");
        Ok(())
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
