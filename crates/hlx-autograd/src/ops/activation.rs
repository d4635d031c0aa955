//! Activations, an element at a time.

use hlx_kernels::activation::{Activation, activation_backward, activation_forward};
use hlx_kernels::product::takes_sources;

use super::unary::slope;
use crate::graph::saved::{Again, Origin};
use crate::graph::saved_tensor::SavedTensor;
use crate::{DType, Gradient, Result, Tensor, Unary};

impl Tensor {
    /// Computes y = f(x) for each element; the shape stays.
    ///
    /// # Errors
    /// [`AutogradError::DType`](crate::AutogradError::DType) for ids, and what the device
    /// reports.
    #[doc = example!(x: "assert_eq!(x.activation(Activation::ReLU)?.to_vec::<f32>()?, x.to_vec::<f32>()?);")]
    pub fn activation(&self, kind: Activation) -> Result<Tensor> {
        self.expect_type("activation", "the input", DType::F32)?;
        let (device, values) = (self.device(), self.buffer()?);
        let y = device.alloc(values.len())?;
        activation_forward(device, kind, &values, &y)?;
        let saved = self.save_activation(&values)?;
        let again = Again {
            source: takes_sources(device).then(|| Origin::Activation {
                kind,
                x: Box::new(self.save_values(&values)),
            }),
            ..Again::of_activation(device, kind, saved.clone())
        };
        let (place, x) = (self.input(), SavedTensor::of(self)?);
        let output = (y, self.shape());
        let y = Tensor::of_rule("activation", &[self], output, move |pass, dy, _| {
            if pass.is_recorded() {
                return pass.add_tensor(&place, &slope(unary_of(kind), dy, &x.tensor()?)?);
            }
            let values = saved.values()?;
            let dx = pass.device().alloc(values.len())?;
            activation_backward(pass.device(), kind, &values, &dy.buffer()?, &dx)?;
            pass.add(&place, Gradient::owned(dx))
        })?;
        Ok(y.with_recipe(again))
    }
}

/// The same function among the unary operations, whose derivative is made of operations.
fn unary_of(kind: Activation) -> Unary {
    match kind {
        Activation::GELU => Unary::GELU,
        Activation::GELUTanh => Unary::GELUTanh,
        Activation::ReLU => Unary::ReLU,
        Activation::SiLU => Unary::SiLU,
        Activation::Sigmoid => Unary::Sigmoid,
        Activation::Tanh => Unary::Tanh,
        Activation::Softplus => Unary::Softplus,
    }
}

/// Defines a method for every kind.
macro_rules! methods {
    ($($(#[$documentation:meta])* $name:ident $variant:ident $forward:ident $backward:ident;)+) => {
        impl Tensor {
            $(
                $(#[$documentation])*
                ///
                /// # Errors
                /// As [`Tensor::activation`].
                pub fn $name(&self) -> Result<Tensor> {
                    match self.dtype() {
                        DType::F32 => self.activation(Activation::$variant),
                        _ if self.rounds_gradient() => self.in_f32(Tensor::$name),
                        _ => self.unary(Unary::$variant, [0.0; 2]),
                    }
                }
            )+
        }
    };
}
hlx_kernels::for_each_activation!(methods);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, ids, input, message, values};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        // ReLU has a corner, and a test of its own.
        let smooth = Activation::ALL.iter().copied();
        for kind in smooth.filter(|&kind| kind != Activation::ReLU) {
            check("activation", &[input(1, &[5, 7])], |x| {
                x[0].activation(kind)
            });
        }
    }

    #[test]
    fn relu_away_from_its_corner() {
        let device = hlx_core::testing::cpu().expect("the CPU device opens");
        let away: Vec<f32> = values(2, 33)
            .iter()
            .map(|x| x + 0.1_f32.copysign(*x))
            .collect();
        let x = Tensor::from_slice(&device, &away, &[33]).expect("uploads");
        check("relu", &[x], |x| x[0].relu());
    }

    #[test]
    fn ids_are_refused() {
        let text = message(ids(1, 4, &[3]).activation(Activation::GELU));
        assert_eq!(
            text,
            "activation: the input has elements of u32, expected f32"
        );
    }
}
