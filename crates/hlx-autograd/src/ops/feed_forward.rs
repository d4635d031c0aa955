//! Two affine maps of the last dimension with an activation between them.

use hlx_core::Buffer;
use hlx_kernels::activation::Activation;
use hlx_kernels::product::{Epilogue, Matrices, Operand, Role, Source, takes_sources};

use super::affine::{Affine, SavedInput, residual_epilogue};
use crate::graph::saved::{Again, Saved};
use crate::graph::tape::gradients_enabled;
use crate::{Gradient, Result, Tensor};

/// What errors call values that no tensor has.
const NAMELESS: &str = "(none)";

impl Tensor {
    /// Computes y = f(x Uᵀ + b) Dᵀ + c, and adds the residual if there is one: to the bits of
    /// [`linear`](Tensor::linear), [`activation`](Tensor::activation), `linear` and
    /// [`add`](Tensor::add), with f and its derivative at the end of the products.
    ///
    /// `up` is U, \[F, K\], and b, \[F\]; `down` is D, \[N, F\], and c, \[N\]; the residual is shaped
    /// as y.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    #[doc = example!(
        x: "let up = Tensor::ones(&device, &[8, 3], DType::F32)?;",
        "let down = Tensor::ones(&device, &[3, 8], DType::F32)?;",
        "let y = x.feed_forward((&up, None), Activation::ReLU, (&down, None), Some(&x))?;",
        "assert_eq!(y.to_vec::<f32>()?[0], 1.0 + 8.0 * 6.0);"
    )]
    pub fn feed_forward(
        &self,
        up: (&Tensor, Option<&Tensor>),
        kind: Activation,
        down: (&Tensor, Option<&Tensor>),
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        const OP: &str = "feed_forward";
        let (rows, k) = self.rows_and_columns(OP)?;
        let up = Affine::new(OP, ["the weight up", "the bias up"], up, self, k)?;
        let down = Affine::new(OP, ["the weight down", "the bias down"], down, self, up.n)?;
        let shape = down.output_shape(OP, self, residual)?;
        let device = self.device();
        let hidden = device.alloc_shape(&[rows, up.n])?;
        let inputs: Vec<&Tensor> = up
            .parameters()
            .chain(down.parameters())
            .chain([self])
            .chain(residual)
            .collect();
        let is_taped = gradients_enabled() && inputs.iter().any(|x| x.requires_grad());
        let save = |hidden: &Buffer| match is_taped {
            true => Saved::activation(device, hidden, || NAMELESS.to_owned()),
            false => Ok(Saved::held(hidden.clone(), NAMELESS.to_owned())),
        };
        let x_rows = up.rows(self, rows)?;
        let (active, saved_hidden, saved_active) = match takes_sources(device) {
            // What is active is prepared where it is computed, and is nowhere stored.
            true => {
                up.forward(device, &x_rows, &hidden, Epilogue::None)?;
                let x = Source::Activation { kind, x: &hidden };
                let of = Matrices::rows(1, rows, up.n);
                let active = Operand::new(device, Role::Signal, x, of)?;
                (active, save(&hidden)?, None)
            }
            false => {
                let active = device.alloc_shape(&[rows, up.n])?;
                let activation = Epilogue::Activation { kind, out: &active };
                up.forward(device, &x_rows, &hidden, activation)?;
                let saved_hidden = save(&hidden)?;
                let again = Again::of_activation(device, kind, saved_hidden.clone());
                // What is computed again is made of the hidden values as they are on the way back.
                let held = match Saved::own(device, &active, &again) {
                    Saved::Again(_) => None,
                    held => Some(held),
                };
                let active = Tensor::from_buffer(device, active, &[rows, up.n])?;
                (down.rows(&active, rows)?, saved_hidden, held)
            }
        };
        let saved_x = up.save_input(self, &x_rows)?;
        drop(x_rows);
        let y = device.alloc_shape(&[rows, down.n])?;
        let around = residual.map(Tensor::buffer).transpose()?;
        down.forward(device, &active, &y, residual_epilogue(around.as_ref()))?;

        let reads_active = down.reads_input();
        let saved_active = saved_active.filter(|_| reads_active);
        // The gradient of the hidden values is for the map up and for what is below it.
        let below = self.requires_grad() || up.requires_grad();
        let reads_hidden = below || (reads_active && saved_active.is_none());
        let saved_hidden = reads_hidden.then_some(saved_hidden);
        drop(hidden);
        let (x, batch, residual) = (self.input(), self.batch(), residual.map(Tensor::input));
        let (up, down) = (up.save(x.requires_grad())?, down.save(below)?);
        Tensor::from_operation(OP, &inputs, y, &shape, move |pass, dy| {
            if let Some(residual) = residual {
                pass.add(&residual, Gradient::shared(dy.buffer()?))?;
            }
            let dy = dy.buffer()?;
            let incoming = down.incoming(&dy);
            let hidden = saved_hidden.map(|hidden| hidden.values()).transpose()?;
            let active = match (&hidden, saved_active) {
                (Some(hidden), None) if reads_active => {
                    let hidden = Saved::held(hidden.clone(), NAMELESS.to_owned());
                    Some(Saved::Again(Again::of_activation(
                        pass.device(),
                        kind,
                        hidden,
                    )))
                }
                (_, saved) => saved,
            };
            let active = active.map(SavedInput::Values);
            down.backward_parameters(pass, &incoming, active.as_ref(), rows, batch)?;
            drop(active);
            // The gradient overwrites the hidden values, which nothing else reads.
            let Some(dhidden) = hidden.filter(|_| below) else {
                return Ok(());
            };
            let slope = Epilogue::ActivationBackward(kind);
            down.backward_input(pass.device(), &incoming, &dhidden, rows, slope)?;
            drop(incoming);
            drop(dy);
            let incoming = up.incoming(&dhidden);
            up.backward_parameters(pass, &incoming, saved_x.as_ref(), rows, batch)?;
            if !x.requires_grad() {
                return Ok(());
            }
            let dx = pass.device().alloc(x.n_elements())?;
            up.backward_input(pass.device(), &incoming, &dx, rows, Epilogue::None)?;
            pass.add(&x, Gradient::owned(dx))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message};

    /// x, U, b, D, c and the residual.
    fn inputs() -> [Tensor; 6] {
        [
            input(1, &[2, 3, 5]),
            input(2, &[7, 5]),
            input(3, &[7]),
            input(4, &[4, 7]),
            input(5, &[4]),
            input(6, &[2, 3, 4]),
        ]
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        for kind in [Activation::GELU, Activation::Tanh] {
            check("feed_forward", &inputs(), |x| {
                let (up, down) = ((&x[1], Some(&x[2])), (&x[3], Some(&x[4])));
                x[0].feed_forward(up, kind, down, Some(&x[5]))
            });
        }
        check("feed_forward", &inputs(), |x| {
            x[0].feed_forward((&x[1], None), Activation::GELU, (&x[3], None), None)
        });
    }

    #[test]
    fn it_has_the_bits_of_its_parts() -> Result<()> {
        type Network = fn(&[Tensor]) -> Result<Tensor>;
        let kinds: [Network; 2] = [
            |x| {
                let (up, down) = ((&x[1], Some(&x[2])), (&x[3], Some(&x[4])));
                x[0].feed_forward(up, Activation::GELU, down, Some(&x[5]))
            },
            |x| {
                let hidden = x[0].linear(&x[1], Some(&x[2]))?.gelu()?;
                x[5].add(&hidden.linear(&x[3], Some(&x[4]))?)
            },
        ];
        let mut outcomes = Vec::new();
        for network in kinds {
            let leaves = inputs().map(|x| x.with_gradient());
            let y = network(&leaves)?;
            y.mul(&y)?.sum()?.backward()?;
            let gradients = leaves
                .iter()
                .map(|x| x.grad().expect("a gradient").to_vec::<f32>());
            outcomes.push((y.to_vec::<f32>()?, gradients.collect::<Result<Vec<_>>>()?));
        }
        assert_eq!(outcomes[0], outcomes[1]);
        Ok(())
    }

    #[test]
    fn unfitting_widths_are_refused() {
        let [x, u, b, d, _, _] = inputs();
        let kind = Activation::GELU;
        let text = message(x.feed_forward((&u, Some(&b)), kind, (&u, None), None));
        assert_eq!(
            text,
            "feed_forward: the weight down has shape [7, 5], expected [N, 7]"
        );
        let text = message(x.feed_forward((&u, None), kind, (&d, None), Some(&x)));
        assert_eq!(
            text,
            "feed_forward: the residual has shape [2, 3, 5], expected [2, 3, 4]"
        );
    }
}
