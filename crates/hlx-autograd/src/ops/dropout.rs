//! Dropout from a counter: the mask is a function of seed, purpose, step and place alone.

use hlx_core::Buffer;
use hlx_kernels::dropout::{Dropout, dropout};

use crate::{Result, Tensor};

/// Which mask a dropout draws.
#[derive(Clone, Debug)]
pub struct DropoutMask {
    /// The probability that an element is dropped, in [0, 1).
    pub p: f32,
    /// The run's seed.
    pub seed: u64,
    /// The place in the model: no two dropouts of one model share a number.
    pub purpose: u32,
    /// Two ids on the device: the step, and the number of the first sample in the whole batch.
    pub counter: Buffer,
}

impl Tensor {
    /// Zeroes each element with probability p and scales the rest by 1 / (1 - p), as
    /// `torch.nn.functional.dropout`; the first dimension counts samples.
    ///
    /// The mask is drawn again in the backward pass, which must come before the counter moves
    /// on. An element's draw depends on its sample and its place in it, not on the batch.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for a tensor without dimensions.
    #[doc = example!(
        "let x = Tensor::ones(&device, &[1, 2, 8], DType::F32)?;",
        "let counter = device.buffer_of::<u32>(&[0, 0])?;",
        "let mask = DropoutMask { p: 0.5, seed: 7, purpose: 0, counter };",
        "let dropped = x.dropout(&mask)?;",
        "assert!(dropped.to_vec::<f32>()?.iter().all(|&value| value == 0.0 || value == 2.0));"
    )]
    pub fn dropout(&self, mask: &DropoutMask) -> Result<Tensor> {
        let Some((&batch, sample)) = self.shape().split_first() else {
            return Err(self.shape_error("dropout", "the input", "at least one dimension"));
        };
        let DropoutMask {
            p,
            seed,
            purpose,
            ref counter,
        } = *mask;
        let spec = Dropout {
            p,
            seed,
            purpose,
            batch,
            time: 1,
            width: sample.iter().product(),
        };
        let (counter, again) = (counter.clone(), counter.clone());
        self.map_or_rows(
            "dropout",
            move |device, x, y| dropout(device, x, y, &counter, &spec),
            move |device, dy, dx| dropout(device, dy, dx, &again, &spec),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input};

    fn mask(x: &Tensor, counter: [u32; 2]) -> DropoutMask {
        let counter = x.device().buffer_of::<u32>(&counter).expect("uploads");
        DropoutMask {
            p: 0.4,
            seed: 11,
            purpose: 3,
            counter,
        }
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = input(1, &[2, 3, 7]);
        let mask = mask(&x, [5, 0]);
        check("dropout", &[x], |x| x[0].dropout(&mask));
    }

    #[test]
    fn the_mask_depends_on_the_place_in_the_sample_and_on_no_shape() -> Result<()> {
        let x = input(1, &[2, 3, 7]);
        let expected = x.dropout(&mask(&x, [5, 0]))?.to_vec::<f32>()?;
        for shape in [&[2, 21][..], &[2, 7, 3, 1]] {
            let again = x.reshape(shape)?;
            let dropped = again.dropout(&mask(&x, [5, 0]))?;
            assert_eq!(dropped.shape(), shape);
            assert_eq!(dropped.to_vec::<f32>()?, expected);
        }
        let scalar = x.sum()?.reshape::<usize>(&[])?;
        let error = scalar.dropout(&mask(&x, [5, 0])).expect_err("no samples");
        let expected = "dropout: the input has shape [], expected at least one dimension";
        assert_eq!(error.to_string(), expected);
        Ok(())
    }

    #[test]
    fn a_sample_has_the_same_mask_in_any_batch() -> Result<()> {
        let x = input(1, &[2, 3, 7]);
        let values = x.to_vec::<f32>()?;
        let second = Tensor::from_slice(x.device(), &values[21..], &[1, 3, 7])?;
        let both = x.dropout(&mask(&x, [5, 0]))?.to_vec::<f32>()?;
        let alone = second.dropout(&mask(&x, [5, 1]))?.to_vec::<f32>()?;
        assert_eq!(both[21..], alone);
        assert_ne!(
            both[21..],
            second.dropout(&mask(&x, [6, 1]))?.to_vec::<f32>()?[..]
        );
        Ok(())
    }
}
