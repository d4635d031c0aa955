//! Rotary positions.

use hlx_kernels::rope::{Rope, rope};

use crate::{DType, Result, Tensor};

const OP: &str = "rope";

impl Tensor {
    /// Turns pairs of each head's elements by the angle of its position (Su et al. 2021): x is
    /// \[.., H, D\], `positions` holds an id for each of the leading places, and `frequencies` \[half\]
    /// the angle of a step, `2 half <= D`. Element i < half makes a pair with element i + half, as
    /// `rotate_half` in Hugging Face's models; elements from 2 half on stay. Sines and cosines are
    /// multiplied by `scale`, 1 except for YaRN.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) and
    /// [`AutogradError::DType`](crate::AutogradError::DType) of an argument that does not fit.
    #[doc = example!(
        "let x = Tensor::from_slice(&device, &[1.0, 0.0, 1.0, 0.0], &[2, 1, 2])?;",
        "let positions = Tensor::from_slice::<u32>(&device, &[0, 1], &[2])?;",
        "let y = x.rope(&positions, &Tensor::ones(&device, &[1], DType::F32)?, 1.0)?.to_vec::<f32>()?;",
        "assert_eq!(y[..2], [1.0, 0.0]);",
        "assert!((y[2] - 0.5403).abs() < 1e-4 && (y[3] - 0.8415).abs() < 1e-4);"
    )]
    pub fn rope(&self, positions: &Tensor, frequencies: &Tensor, scale: f32) -> Result<Tensor> {
        self.same_device(
            OP,
            [
                ("positions", Some(positions)),
                ("frequencies", Some(frequencies)),
            ],
        )?;
        self.expect_type(OP, "x", DType::F32)?;
        positions.expect_type(OP, "positions", DType::U32)?;
        frequencies.expect_type(OP, "frequencies", DType::F32)?;
        let &[ref rows @ .., _, width] = self.shape() else {
            return Err(self.shape_error(OP, "x", "[.., heads, head width]"));
        };
        if positions.shape() != rows {
            return Err(positions.shape_error(OP, "positions", format!("{rows:?}")));
        }
        if frequencies.rank() != 1 || 2 * frequencies.n_elements() > width {
            let expected = format!("one dimension of at most {}", width / 2);
            return Err(frequencies.shape_error(OP, "frequencies", expected));
        }
        self.rotated(&positions.detach(), &frequencies.detach(), scale, false)
    }

    /// The rotation, or its inverse, which is the derivative.
    fn rotated(
        &self,
        positions: &Tensor,
        frequencies: &Tensor,
        scale: f32,
        inverse: bool,
    ) -> Result<Tensor> {
        let (device, rank) = (self.device(), self.rank());
        let sizes = Rope {
            rows: positions.n_elements(),
            heads: self.shape()[rank - 2],
            width: self.shape()[rank - 1],
            scale,
            inverse,
        };
        let y = device.alloc(self.n_elements())?;
        let (at, frequency) = (positions.buffer()?, frequencies.buffer()?);
        rope(device, &self.buffer()?, &at, &frequency, &y, &sizes)?;
        let (x, positions, frequencies) = (self.input(), positions.clone(), frequencies.clone());
        Tensor::of_rule(OP, &[self], (y, self.shape()), move |pass, dy, _| {
            let dx = dy.rotated(&positions, &frequencies, scale, !inverse)?;
            pass.add_tensor(&x, &dx)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::ops::test_support::{check, ids, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let positions = ids(1, 100, &[2, 3]);
        let frequencies = input(2, &[2]).detach();
        check("rope", &[input(3, &[2, 3, 2, 5])], move |x| {
            x[0].rope(&positions, &frequencies, 1.5)
        });
    }

    #[test]
    fn unfitting_shapes_are_refused() {
        let refusal = |x: &Tensor, n: usize, half: usize| {
            message(x.rope(&ids(1, 9, &[n]), &input(2, &[half]), 1.0))
        };
        let x = input(1, &[2, 3, 4]);
        let text = refusal(&x, 3, 2);
        assert_eq!(text, "rope: positions has shape [3], expected [2]");
        let text = refusal(&x, 2, 3);
        let expected = "rope: frequencies has shape [3], expected one dimension of at most 2";
        assert_eq!(text, expected);
        let text = refusal(&input(1, &[4]), 2, 2);
        assert_eq!(
            text,
            "rope: x has shape [4], expected [.., heads, head width]"
        );
    }
}
