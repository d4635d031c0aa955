//! Pooling of images \[.., H, W\]: the dimensions before are planes of their own.
//!
//! Averages are linear: their second derivative is their first. A maximum's second derivative goes through the places
//! that it chose.

use hlx_core::{Buffer, Device};
use hlx_kernels::pool::{
    AvgDivisor, AvgPool2d, Pool2d, avg_pool2d_backward, avg_pool2d_forward, max_pool2d_backward,
    max_pool2d_forward,
};
use hlx_kernels::{KernelError, Layout, Windows};

use crate::{DType, Gradient, Result, Tensor};

/// The windows of a pooling; pairs are of height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Elements of a window.
    pub kernel: [usize; 2],
    /// Elements from one window to the next.
    pub stride: [usize; 2],
    /// Elements outside of the plane on each side.
    pub padding: [usize; 2],
    /// Elements from one of a window to the next; 1 for averages.
    pub dilation: [usize; 2],
    /// Windows that pass the end count.
    pub ceil_mode: bool,
}

impl PoolOptions {
    /// Square windows that touch: PyTorch's defaults.
    #[doc = example!("assert_eq!(PoolOptions::square(2).stride, [2, 2]);")]
    pub fn square(size: usize) -> Self {
        Self {
            kernel: [size; 2],
            stride: [size; 2],
            padding: [0; 2],
            dilation: [1; 2],
            ceil_mode: false,
        }
    }
}

/// A linear map of planes, whose gradient is its transpose.
#[derive(Clone, Copy)]
pub(super) struct PlaneMap<F> {
    pub op: &'static str,
    pub input: [usize; 2],
    pub output: [usize; 2],
    /// Launches the map, or its transpose.
    pub launch: F,
}

impl<F> PlaneMap<F>
where
    F: Fn(&Device, &Buffer, &Buffer, bool) -> Result<(), KernelError>
        + Copy
        + Send
        + Sync
        + 'static,
{
    pub fn apply(self, x: &Tensor) -> Result<Tensor> {
        self.applied(x, false)
    }

    fn applied(self, x: &Tensor, transposed: bool) -> Result<Tensor> {
        let to = if transposed { self.input } else { self.output };
        let rank = x.rank();
        let shape = [&x.shape()[..rank - 2], &to].concat();
        let device = x.device();
        let y = device.alloc(Layout::count(&shape)?)?;
        (self.launch)(device, &x.buffer()?, &y, transposed)?;
        let (place, samples) = (x.input(), x.samples());
        let y = Tensor::of_rule(self.op, &[x], (y, &shape), move |pass, dy, _| {
            pass.add_tensor(&place, &self.applied(dy, !transposed)?)
        })?;
        Ok(y.with_samples_of(samples.moved(|axis| (axis + 2 < rank).then_some(axis))))
    }
}

fn pool_of(options: PoolOptions, planes: usize, input: [usize; 2]) -> Pool2d {
    Pool2d {
        planes,
        windows: Windows {
            input,
            kernel: options.kernel,
            stride: options.stride,
            padding: options.padding,
            dilation: options.dilation,
        },
        ceil_mode: options.ceil_mode,
    }
}

impl Tensor {
    /// The planes of an image of f32: their number, height and width.
    pub(super) fn planes(&self, op: &'static str) -> Result<(usize, [usize; 2])> {
        self.expect_type(op, "the input", DType::F32)?;
        self.planes_of_any(op)
    }

    fn planes_of_any(&self, op: &'static str) -> Result<(usize, [usize; 2])> {
        match self.shape() {
            &[ref leading @ .., height, width] => Ok((leading.iter().product(), [height, width])),
            _ => Err(self.shape_error(op, "the input", "[.., H, W]")),
        }
    }

    /// Computes the largest element of each window, as `torch.nn.functional.max_pool2d`: NaN if one is,
    /// and of equal ones the first has the gradient. Integers have the order of their type.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), and a kernel error for windows that do not
    /// fit.
    #[doc = example!(
        "let image = Tensor::arange(&device, 0.0, 16.0, 1.0)?.reshape(&[1, 1, 4, 4])?;",
        "assert_eq!(image.max_pool2d(&PoolOptions::square(2))?.to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);"
    )]
    pub fn max_pool2d(&self, options: &PoolOptions) -> Result<Tensor> {
        Ok(self.max_pool2d_with_indices(options)?.0)
    }

    /// As [`Tensor::max_pool2d`], and the place of each largest element in its plane, counted in
    /// row-major order, as u32: `return_indices=True`.
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d`].
    pub fn max_pool2d_with_indices(&self, options: &PoolOptions) -> Result<(Tensor, Tensor)> {
        const OP: &str = "max_pool2d";
        // f32 holds these values, and so their order.
        if self.is_half() || matches!(self.dtype(), DType::I8 | DType::U8) {
            let wide = self.to_dtype(DType::F32)?;
            let (values, places) = wide.max_pool2d_with_indices(options)?;
            return Ok((values.to_dtype(self.dtype())?, places));
        }
        let (planes, input) = match self.dtype() {
            DType::I32 | DType::U32 => self.planes_of_any(OP)?,
            _ => self.planes(OP)?,
        };
        let spec = pool_of(*options, planes, input);
        let [h, w] = spec.output()?;
        let device = self.device();
        let values = device.alloc_shape_typed(self.dtype(), &[planes, h, w])?;
        let places = device.alloc_shape_typed(DType::U32, &[planes, h, w])?;
        max_pool2d_forward(device, &self.buffer()?, &values, &places, &spec)?;
        let rank = self.rank();
        let samples = self
            .samples()
            .moved(|axis| (axis + 2 < rank).then_some(axis));
        let shape = [&self.shape()[..rank - 2], &[h, w]].concat();
        let chosen = Tensor::from_buffer(device, places.clone(), &shape)?.with_samples_of(samples);
        if !self.requires_grad() {
            let values = Tensor::from_buffer(device, values, &shape)?;
            return Ok((values.with_samples_of(samples), chosen));
        }
        let (place, from) = (self.input(), self.shape().to_vec());
        let y = Tensor::of_rule(OP, &[self], (values, &shape), move |pass, dy, _| {
            if !pass.is_recorded() {
                let dx = pass.device().alloc_shape(&from)?;
                max_pool2d_backward(pass.device(), &dy.buffer()?, &places, &dx, &spec)?;
                return pass.add(&place, Gradient::owned(dx));
            }
            let chosen = Tensor::from_buffer(dy.device(), places.clone(), &[planes, h * w])?;
            let zeros = Tensor::zeros(dy.device(), &[planes, input[0] * input[1]], DType::F32)?;
            let dy = dy.reshape(&[planes, h * w])?;
            let dx = zeros.scatter_add(1, &chosen, &dy)?;
            pass.add_tensor(&place, &dx.reshape(&from)?)
        })?;
        Ok((y.with_samples_of(samples), chosen))
    }

    /// Computes the average of each window, as `torch.nn.functional.avg_pool2d`.
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d`].
    #[doc = example!(
        "let image = Tensor::arange(&device, 0.0, 16.0, 1.0)?.reshape(&[1, 1, 4, 4])?;",
        "let means = image.avg_pool2d(&PoolOptions::square(2), AvgDivisor::Padded)?;",
        "assert_eq!(means.to_vec::<f32>()?, [2.5, 4.5, 10.5, 12.5]);"
    )]
    pub fn avg_pool2d(&self, options: &PoolOptions, divisor: AvgDivisor) -> Result<Tensor> {
        const OP: &str = "avg_pool2d";
        if self.is_half() {
            return self.in_f32(|x| x.avg_pool2d(options, divisor));
        }
        let (planes, input) = self.planes(OP)?;
        let pool = pool_of(*options, planes, input);
        let spec = AvgPool2d::Windows(pool, divisor);
        self.averaged(OP, input, pool.output()?, spec)
    }

    /// Computes averages over windows that give planes of `output`, as
    /// `torch.nn.functional.adaptive_avg_pool2d`.
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d`].
    #[doc = example!(
        "let image = Tensor::arange(&device, 0.0, 16.0, 1.0)?.reshape(&[1, 1, 4, 4])?;",
        "assert_eq!(image.adaptive_avg_pool2d([1, 1])?.to_vec::<f32>()?, [7.5]);"
    )]
    pub fn adaptive_avg_pool2d(&self, output: [usize; 2]) -> Result<Tensor> {
        const OP: &str = "adaptive_avg_pool2d";
        if self.is_half() {
            return self.in_f32(|x| x.adaptive_avg_pool2d(output));
        }
        let (planes, input) = self.planes(OP)?;
        let spec = AvgPool2d::Adaptive {
            planes,
            input,
            output,
        };
        self.averaged(OP, input, output, spec)
    }

    fn averaged(
        &self,
        op: &'static str,
        input: [usize; 2],
        output: [usize; 2],
        spec: AvgPool2d,
    ) -> Result<Tensor> {
        let map = PlaneMap {
            op,
            input,
            output,
            launch: move |device: &Device, x: &Buffer, y: &Buffer, transposed| match transposed {
                false => avg_pool2d_forward(device, x, y, &spec),
                true => avg_pool2d_backward(device, x, y, &spec),
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
        let options = PoolOptions {
            stride: [1, 2],
            padding: [1, 0],
            ..PoolOptions::square(2)
        };
        // Values further apart than the steps of the check, so that none changes the largest.
        let apart: Vec<f32> = (0..180).map(|i| (i * 77 % 180) as f32 / 8.0).collect();
        let apart = Tensor::from_slice(x[0].device(), &apart, x[0].shape()).expect("uploads");
        check("max_pool2d", &[apart], |x| x[0].max_pool2d(&options));
        for divisor in [AvgDivisor::Padded, AvgDivisor::Inside] {
            check("avg_pool2d", &x, |x| {
                x[0].avg_pool2d(&options, divisor)?.gelu()
            });
        }
        check("adaptive_avg_pool2d", &x, |x| {
            x[0].adaptive_avg_pool2d([2, 4])?.gelu()
        });
    }

    #[test]
    fn the_first_of_equal_ones_has_the_gradient() -> Result<()> {
        let device = hlx_core::testing::devices()[0].clone();
        let x = Tensor::from_slice(&device, &[1.0, 3.0, 3.0, 0.0], &[1, 2, 2])?.with_gradient();
        x.max_pool2d(&PoolOptions::square(2))?.sum()?.backward()?;
        assert_eq!(
            x.grad().expect("one").to_vec::<f32>()?,
            [0.0, 1.0, 0.0, 0.0]
        );
        Ok(())
    }
}
