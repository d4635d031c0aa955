//! Copies of tensors between devices.

use hlx_core::{Buffer, Device};

use crate::graph::tape::Rule;
use crate::{Backward, Result, Tensor};

impl Tensor {
    /// Copies the tensor to another device, by way of the host, as `torch.Tensor.to(device)`: the
    /// tensor itself if it is there. The gradient is copied back. Waits for both devices, so that it
    /// cannot be recorded. A handle of the same device with another arithmetic is another device, to which the
    /// copy is made within the device.
    ///
    /// # Errors
    /// What the devices report.
    ///
    /// ```
    /// # use hlx_autograd::Tensor;
    /// # use hlx_core::Device;
    /// let (one, two) = (Device::open("cpu")?, Device::open("cpu")?);
    /// let x = Tensor::from_slice(&one, &[1.0, 2.0], &[2])?.with_gradient();
    /// x.to(&two)?.square()?.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), hlx_autograd::AutogradError>(())
    /// ```
    pub fn to(&self, device: &Device) -> Result<Tensor> {
        let from = self.device();
        if device.is_same(from) && device.arithmetic() == from.arithmetic() {
            return Ok(self.clone());
        }
        let values = carried(&self.buffer()?, self.device(), device)?;
        let (x, from) = (self.input(), self.device().clone());
        let rule = move |pass: &mut Backward<'_>, dy: &Tensor| {
            let dx = dy.to(&from)?;
            pass.within(&from, |pass| pass.add_tensor(&x, &dx))
        };
        let output = (self.shape(), self.n_elements());
        let input = Tensor::place_on(device, "to", &[self], output, || Rule::of(rule))?;
        Tensor::dense_over(device, values, self.shape(), self.samples(), input)
    }
}

/// A buffer's words in the memory of another device.
fn carried(values: &Buffer, from: &Device, to: &Device) -> Result<Buffer> {
    let copy = to.alloc_typed(values.dtype(), values.len())?;
    if from.is_same(to) {
        to.copy(values, &copy)?;
    } else if !values.is_empty() {
        to.upload_words(&copy, &from.download_words(values)?)?;
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use hlx_core::{Arithmetic, testing};

    use super::*;
    use crate::DType;

    #[test]
    fn every_type_arrives_as_it_was() -> Result<()> {
        let host = testing::cpu()?;
        for device in testing::devices() {
            let x = Tensor::randn(&host, &[3, 5], 1)?;
            for dtype in DType::ALL {
                let x = x.to_dtype(dtype)?.transpose(0, 1)?;
                let there = x.to(device)?;
                assert!(there.device().is_same(device));
                assert_eq!((there.shape(), there.dtype()), (x.shape(), dtype));
                assert!(there.to(&host)?.equal(&x)?, "{dtype}");
            }
            assert_eq!(x.narrow(0, 0, 0)?.to(device)?.shape(), [0, 5]);
        }
        Ok(())
    }

    #[test]
    fn a_gradient_is_carried_back_through_two_devices() -> Result<()> {
        let host = testing::cpu()?;
        for device in testing::devices() {
            let x = Tensor::randn(&host, &[4], 1)?.with_gradient();
            // Used on both, so that contributions of both devices are added.
            let there = x.to(device)?.square()?;
            let loss = there.to(&host)?.mul(&x)?.sum()?;
            loss.backward()?;
            let alone = x.detach().with_gradient();
            alone.square()?.mul(&alone)?.sum()?.backward()?;
            let gradients = [&x, &alone].map(|x| x.grad().expect("a gradient"));
            assert!(gradients[0].equal(&gradients[1])?);
            assert!(gradients[0].device().is_same(&host));
        }
        Ok(())
    }

    #[test]
    fn the_arithmetic_is_the_devices() -> Result<()> {
        for device in testing::devices() {
            let integer = device.with_arithmetic(Arithmetic::Integer);
            let x = Tensor::randn(&integer, &[2, 3], 1)?.with_gradient();
            let there = x.transpose(0, 1)?.to(device)?;
            assert_eq!(there.device().arithmetic(), device.arithmetic());
            assert!(there.equal(&Tensor::randn(device, &[2, 3], 1)?.transpose(0, 1)?)?);
            there.sum()?.backward()?;
            let dx = x.grad().expect("a gradient");
            assert_eq!(dx.device().arithmetic(), Arithmetic::Integer);
            assert_eq!(dx.to_vec::<f32>()?, [1.0; 6]);
            assert_eq!(
                Tensor::zeros(&integer, &[0], DType::F32)?
                    .to(device)?
                    .shape(),
                [0]
            );
        }
        Ok(())
    }

    #[test]
    fn a_second_derivative_crosses_too() -> Result<()> {
        let (host, device) = (testing::cpu()?, &testing::devices()[0]);
        let x = Tensor::full(&host, &[], 2.0, DType::F32)?.with_gradient();
        let y = x.to(device)?.pow(3.0)?;
        let slope = y.gradients(&[&x], true)?.remove(0).expect("x is used");
        assert_eq!(slope.item::<f32>()?, 12.0);
        let second = slope.gradients(&[&x], false)?.remove(0);
        assert_eq!(second.expect("x is used").item::<f32>()?, 12.0);
        Ok(())
    }
}
