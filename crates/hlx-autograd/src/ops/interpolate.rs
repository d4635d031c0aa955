//! Interpolation of images \[.., H, W\], a linear map of their planes: its second derivative is its first.

use hlx_core::{Buffer, Device};
use hlx_kernels::interpolate::{
    Interpolate2d, Interpolation, interpolate2d_backward, interpolate2d_forward,
};

use super::pool::PlaneMap;
use crate::{DType, Result, Tensor};

impl Tensor {
    /// Samples planes to `output`, as `torch.nn.functional.interpolate(size=..)`. Nearest
    /// takes bytes (u8), too.
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d`].
    #[doc = example!(
        "let image = Tensor::arange(&device, 0.0, 2.0, 1.0)?.reshape(&[1, 1, 1, 2])?;",
        "let wide = image.interpolate([1, 4], Interpolation::Nearest)?;",
        "assert_eq!(wide.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0]);"
    )]
    pub fn interpolate(&self, output: [usize; 2], mode: Interpolation) -> Result<Tensor> {
        self.interpolated(mode, None, &|_| output)
    }

    /// Samples planes to `factors` times their height and width, rounded down, as
    /// `torch.nn.functional.interpolate(scale_factor=..)`.
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d`].
    pub fn interpolate_by(&self, factors: [f64; 2], mode: Interpolation) -> Result<Tensor> {
        self.interpolated(mode, Some(factors), &|input| {
            [0, 1].map(|axis| (input[axis] as f64 * factors[axis]).floor() as usize)
        })
    }

    /// By factors, if they are given, else by the ratio of the sizes.
    fn interpolated(
        &self,
        mode: Interpolation,
        scale_factor: Option<[f64; 2]>,
        output_of: &dyn Fn([usize; 2]) -> [usize; 2],
    ) -> Result<Tensor> {
        if self.is_half() || (self.dtype() == DType::U8 && mode == Interpolation::Nearest) {
            return self.in_f32(|x| x.interpolated(mode, scale_factor, output_of));
        }
        let (planes, input) = self.planes("interpolate")?;
        let output = output_of(input);
        let spec = Interpolate2d {
            planes,
            input,
            output,
            mode,
            scale_factor,
        };
        let map = PlaneMap {
            op: "interpolate",
            input,
            output,
            launch: move |device: &Device, x: &Buffer, y: &Buffer, transposed| match transposed {
                false => interpolate2d_forward(device, x, y, &spec),
                true => interpolate2d_backward(device, x, y, &spec),
            },
        };
        map.apply(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = [input(1, &[2, 3, 5, 6])];
        for mode in [
            Interpolation::Nearest,
            Interpolation::Bilinear,
            Interpolation::BilinearAligned,
        ] {
            check("interpolate", &x, |x| {
                x[0].interpolate([8, 4], mode)?.gelu()
            });
            check("interpolate", &x, |x| {
                x[0].interpolate_by([1.7, 0.6], mode)?.gelu()
            });
        }
    }
}
