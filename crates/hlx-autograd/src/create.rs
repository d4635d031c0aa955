//! How tensors are made: from host data, from a rule, from random numbers.
//!
//! Random numbers come from a counter (Philox 4x32-10): element `i` of a tensor is a function of the
//! seed and `i` alone, on every device.

use hlx_core::{Buffer, DType, Device, Element};
use hlx_kernels::Layout;
use hlx_kernels::elementwise::{self, Band, Distribution, Draw};

use crate::graph::input::Input;
use crate::samples::Samples;
use crate::{AutogradError, Result, Tensor};

/// Distinguishes the draws of this file from those of weights and dropouts of the same seed.
const PURPOSE: u32 = 0x7465_6e73;

impl Tensor {
    fn constant_of(device: &Device, buffer: Buffer, shape: &[usize]) -> Result<Self> {
        let input = Input::constant(buffer.len());
        Self::dense_over(device, buffer, shape, Samples::None, input)
    }

    /// Makes a tensor of zeros, as `torch.zeros`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!("assert_eq!(Tensor::zeros(&device, &[2], DType::F32)?.to_vec::<f32>()?, [0.0, 0.0]);")]
    pub fn zeros(device: &Device, shape: &[usize], dtype: DType) -> Result<Self> {
        Self::full(device, shape, 0.0, dtype)
    }

    /// Makes a tensor of ones, as `torch.ones`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!("assert_eq!(Tensor::ones(&device, &[2], DType::F32)?.to_vec::<f32>()?, [1.0, 1.0]);")]
    pub fn ones(device: &Device, shape: &[usize], dtype: DType) -> Result<Self> {
        Self::full(device, shape, 1.0, dtype)
    }

    /// Makes a tensor of one value, as `torch.full`; it can be recorded.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(
        "assert_eq!(Tensor::full(&device, &[2], 7.0, DType::U8)?.to_vec::<u8>()?, [7, 7]);"
    )]
    pub fn full(device: &Device, shape: &[usize], value: f32, dtype: DType) -> Result<Self> {
        let buffer = device.alloc_typed(dtype, Layout::contiguous(shape)?.n_elements())?;
        device.fill(&buffer, word_of(value, dtype))?;
        Self::constant_of(device, buffer, shape)
    }

    /// A whole number without dimensions, as i32.
    pub(crate) fn whole(device: &Device, value: i32) -> Result<Self> {
        let buffer = device.alloc_typed(DType::I32, 1)?;
        device.fill(&buffer, value.cast_unsigned())?;
        Self::constant_of(device, buffer, &[])
    }

    /// A whole number without dimensions, as u32.
    pub(crate) fn whole_u32(device: &Device, value: u32) -> Result<Self> {
        let buffer = device.alloc_typed(DType::U32, 1)?;
        device.fill(&buffer, value)?;
        Self::constant_of(device, buffer, &[])
    }

    /// Makes zeros of this tensor's shape and type.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(x: "assert_eq!(x.zeros_like()?.shape(), x.shape());")]
    pub fn zeros_like(&self) -> Result<Self> {
        Self::zeros(self.device(), self.shape(), self.dtype())
    }

    /// Makes ones of this tensor's shape and type.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(x: "assert_eq!(x.ones_like()?.to_vec::<f32>()?, [1.0; 6]);")]
    pub fn ones_like(&self) -> Result<Self> {
        Self::ones(self.device(), self.shape(), self.dtype())
    }

    /// Makes the f32 values `start, start + step, ...` below `end` (above it for a negative step), as
    /// `torch.arange`: element i is `start + i step`, rounded once.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for a step of 0 or away from `end`.
    #[doc = example!(
        "assert_eq!(Tensor::arange(&device, 0.0, 2.0, 0.5)?.to_vec::<f32>()?, [0.0, 0.5, 1.0, 1.5]);"
    )]
    pub fn arange(
        device: &Device,
        start: impl Into<f64>,
        end: impl Into<f64>,
        step: impl Into<f64>,
    ) -> Result<Self> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        let count = (end - start) / step;
        if !count.is_finite() || count < 0.0 {
            return Err(AutogradError::Argument {
                op: "arange",
                reason: format!("steps of {step} do not lead from {start} to {end}"),
            });
        }
        let n = count.ceil() as usize;
        let out = device.alloc(n)?;
        elementwise::arange(device, start, step, &out)?;
        Self::constant_of(device, out, &[n])
    }

    /// Makes `count` values from `start` to `end`, both included, at equal distances, as
    /// `torch.linspace`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(
        "assert_eq!(Tensor::linspace(&device, 0.0, 1.0, 3)?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);"
    )]
    pub fn linspace(device: &Device, start: f32, end: f32, count: usize) -> Result<Self> {
        let out = device.alloc(count)?;
        elementwise::linspace(device, start, end, &out)?;
        Self::constant_of(device, out, &[count])
    }

    /// Makes the identity matrix \[n, n\], as `torch.eye`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!("assert_eq!(Tensor::eye(&device, 2)?.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);")]
    pub fn eye(device: &Device, n: usize) -> Result<Self> {
        Self::eye_of(device, n, n)
    }

    /// Makes a matrix \[rows, columns\] with ones on its diagonal, as `torch.eye(n, m)`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn eye_of(device: &Device, rows: usize, columns: usize) -> Result<Self> {
        let out = device.alloc(Layout::count(&[rows, columns])?)?;
        let diagonal = Band {
            rows,
            columns,
            low: Some(0),
            high: Some(0),
        };
        elementwise::band(device, diagonal, &out)?;
        Self::constant_of(device, out, &[rows, columns])
    }

    /// Draws values uniformly from [0, 1), multiples of 2^-24, as `torch.rand`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(
        "let x = Tensor::rand(&device, &[1000], 7)?;",
        "assert!((x.mean()?.item::<f32>()? - 0.5).abs() < 0.05);"
    )]
    pub fn rand(device: &Device, shape: &[usize], seed: u64) -> Result<Self> {
        let uniform = Distribution::Uniform {
            low: 0.0,
            high: 1.0,
        };
        Self::drawn(device, shape, DType::F32, seed, uniform)
    }

    /// Draws values from the normal distribution of mean 0 and deviation 1, as `torch.randn`.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(
        "let x = Tensor::randn(&device, &[1000], 7)?;",
        "assert!(x.mean()?.item::<f32>()?.abs() < 0.1);"
    )]
    pub fn randn(device: &Device, shape: &[usize], seed: u64) -> Result<Self> {
        let normal = Distribution::Normal {
            mean: 0.0,
            deviation: 1.0,
        };
        Self::drawn(device, shape, DType::F32, seed, normal)
    }

    /// Draws whole numbers uniformly from `low` to `high - 1`, as `torch.randint`.
    ///
    /// # Errors
    /// A kernel error for an empty range.
    #[doc = example!(
        "let die = Tensor::randint(&device, 1, 7, &[100], 7)?;",
        "assert!(die.to_vec::<i32>()?.iter().all(|face| (1..7).contains(face)));"
    )]
    pub fn randint(
        device: &Device,
        low: i32,
        high: i32,
        shape: &[usize],
        seed: u64,
    ) -> Result<Self> {
        let integers = Distribution::Integers {
            low: low.into(),
            high: high.into(),
        };
        Self::drawn(device, shape, DType::I32, seed, integers)
    }

    /// Draws `true` with a probability, as `torch.bernoulli` of a constant.
    ///
    /// # Errors
    /// A kernel error unless the probability lies in [0, 1].
    #[doc = example!("assert_eq!(Tensor::bernoulli(&device, 0.25, &[4], 7)?.dtype(), DType::Bool);")]
    pub fn bernoulli(device: &Device, p: f32, shape: &[usize], seed: u64) -> Result<Self> {
        Self::drawn(
            device,
            shape,
            DType::Bool,
            seed,
            Distribution::Bernoulli { p },
        )
    }

    fn drawn(
        device: &Device,
        shape: &[usize],
        dtype: DType,
        seed: u64,
        distribution: Distribution,
    ) -> Result<Self> {
        let out = device.alloc_typed(dtype, Layout::contiguous(shape)?.n_elements())?;
        let draw = Draw {
            seed,
            stream: 0,
            purpose: PURPOSE,
        };
        elementwise::fill_random(device, distribution, draw, &out)?;
        Self::constant_of(device, out, shape)
    }
}

/// A word of elements of one value.
fn word_of(value: f32, dtype: DType) -> u32 {
    let byte = |byte: u8| u32::from_ne_bytes([byte; 4]);
    let half = |bits: u16| u32::from(bits) << 16 | u32::from(bits);
    match dtype {
        DType::F32 => value.stored().to_bits(),
        DType::F16 => half(half::f16::from_f32(value).to_bits()),
        DType::BF16 => half(half::bf16::from_f32(value).stored().to_bits()),
        DType::I32 => (value as i32).cast_unsigned(),
        DType::U32 => value as u32,
        // Numbers out of range wrap, as in PyTorch.
        DType::I8 | DType::U8 => byte(value as i64 as u8),
        DType::Bool => byte(u8::from(value != 0.0)),
    }
}

#[cfg(test)]
mod tests {
    use hlx_core::Bool;

    use super::*;
    use crate::ops::test_support::message;

    #[test]
    fn every_type_is_filled_with_its_value() -> Result<()> {
        for device in hlx_core::testing::devices() {
            for dtype in DType::ALL {
                let shown = Tensor::ones(device, &[3], dtype)?.to_string();
                let one = match dtype {
                    DType::Bool => "True",
                    other if other.is_float() => "1.",
                    _ => "1",
                };
                let cells = [one; 3].join(", ");
                assert!(shown.starts_with(&format!("tensor([{cells}]")), "{shown}");
            }
        }
        Ok(())
    }

    #[test]
    fn ranges_are_those_of_pytorch() -> Result<()> {
        let device = &hlx_core::testing::devices()[0];
        assert_eq!(
            Tensor::arange(device, 1.0, 2.5, 0.5)?.to_vec::<f32>()?,
            [1.0, 1.5, 2.0]
        );
        assert_eq!(
            Tensor::arange(device, 2.0, 0.0, -1.0)?.to_vec::<f32>()?,
            [2.0, 1.0]
        );
        assert_eq!(
            Tensor::linspace(device, 0.0, 1.0, 3)?.to_vec::<f32>()?,
            [0.0, 0.5, 1.0]
        );
        assert_eq!(
            Tensor::linspace(device, 3.0, 10.0, 1)?.to_vec::<f32>()?,
            [3.0]
        );
        assert_eq!(
            Tensor::eye(device, 2)?.to_vec::<f32>()?,
            [1.0, 0.0, 0.0, 1.0]
        );
        let text = message(Tensor::arange(device, 0.0, 1.0, -1.0));
        assert_eq!(text, "arange: steps of -1 do not lead from 0 to 1");
        Ok(())
    }

    #[test]
    fn draws_depend_on_the_seed_and_the_element_alone() -> Result<()> {
        let device = &hlx_core::testing::devices()[0];
        let long = Tensor::randn(device, &[1001], 7)?.to_vec::<f32>()?;
        assert_eq!(
            long[..10],
            Tensor::randn(device, &[10], 7)?.to_vec::<f32>()?
        );
        assert_ne!(
            long[..10],
            Tensor::randn(device, &[10], 8)?.to_vec::<f32>()?
        );
        let mean = long.iter().sum::<f32>() / 1001.0;
        let square = long.iter().map(|x| x * x).sum::<f32>() / 1001.0;
        assert!(
            mean.abs() < 0.1 && (square - 1.0).abs() < 0.2,
            "{mean} {square}"
        );
        let die = Tensor::randint(device, 1, 7, &[600], 3)?.to_vec::<i32>()?;
        assert!((1..7).all(|face| die.contains(&face)) && die.iter().all(|v| (1..7).contains(v)));
        let coin = Tensor::bernoulli(device, 0.25, &[4000], 1)?.to_vec::<Bool>()?;
        let heads = coin.into_iter().filter(|&side| side.into()).count();
        assert!((900..1100).contains(&heads), "{heads}");
        Ok(())
    }
}
