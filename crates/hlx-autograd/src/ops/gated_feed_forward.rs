//! The gated feed-forward network: two affine maps of the input, multiplied, and one of their product.

use hlx_kernels::activation::Activation;
use hlx_kernels::product::{Matrices, Operand, Prologue, Role, Source};

use super::affine::Affine;
use super::few_rows::few_rows_product;
use super::linears::{check_gain, few_rows};
use crate::{Result, Tensor};

const OP: &str = "gated_feed_forward";

impl Tensor {
    /// Computes y = (f(x Gᵀ + a) · (x Uᵀ + b)) Dᵀ + c, and adds the residual if there is one: to the bits of
    /// [`linear`](Tensor::linear), [`activation`](Tensor::activation), [`mul`](Tensor::mul), `linear` and
    /// [`add`](Tensor::add). With a `norm`, its gain \[K\] and what is added under the root, x is
    /// [normalised](Tensor::rms_norm) first.
    ///
    /// `maps` are gate, up and down: G and U, \[F, K\], with a and b, \[F\]; D, \[N, F\], with c, \[N\]. The residual is
    /// shaped as y. Of few rows and where no gradient is wanted, norm, gate and residual are computed within the
    /// products.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    #[doc = example!(
        x: "let (up, down) = (Tensor::ones(&device, &[8, 3], DType::F32)?, Tensor::ones(&device, &[3, 8], DType::F32)?);",
        "let maps = [(&up, None), (&up, None), (&down, None)];",
        "let y = x.gated_feed_forward(None, maps, Activation::ReLU, Some(&x))?;",
        "assert_eq!(y.to_vec::<f32>()?[0], 1.0 + 8.0 * 36.0);"
    )]
    pub fn gated_feed_forward(
        &self,
        norm: Option<(&Tensor, f32)>,
        maps: [(&Tensor, Option<&Tensor>); 3],
        kind: Activation,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (_, k) = self.rows_and_columns(OP)?;
        let [of_gate, of_up, of_down] = maps;
        let gate = Affine::new(
            OP,
            ["the weight of the gate", "the bias of the gate"],
            of_gate,
            self,
            k,
        )?;
        let up = Affine::new(OP, ["the weight up", "the bias up"], of_up, self, k)?;
        if up.n != gate.n {
            let expected = format!("{:?}", gate.weight.shape());
            return Err(up.weight.shape_error(OP, "the weight up", expected));
        }
        let down = Affine::new(
            OP,
            ["the weight down", "the bias down"],
            of_down,
            self,
            up.n,
        )?;
        check_gain(OP, self, norm)?;
        down.output_shape(OP, self, residual)?;
        let all = [gate, up, down];
        // (The product of down makes long rows ready by a launch before it.)
        if self.is_fused(norm, &all[..2], residual) && self.is_final(norm, &all, residual) {
            return fused(self, norm, &all, kind, residual);
        }
        if self.makes_digits(norm, &all, residual) {
            return by_digits(self, norm, &all, kind, residual);
        }
        let x = self.normalised(norm)?;
        let up = x.linear(of_up.0, of_up.1)?;
        let gate = x.linear(of_gate.0, of_gate.1)?;
        let hidden = gate.activation(kind)?.mul(&up)?;
        match residual {
            Some(residual) => hidden.linear_add(of_down.0, of_down.1, residual),
            None => hidden.linear(of_down.0, of_down.1),
        }
    }
}

/// The network whose products read digits: of the norm for gate and up, and of the gate for down, without their floats.
fn by_digits(
    x: &Tensor,
    norm: Option<(&Tensor, f32)>,
    [gate, up, down]: &[Affine<'_>; 3],
    kind: Activation,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let signal = x.signal(norm)?;
    let up = x.mapped(up, &signal, None)?;
    let gate = x.mapped(gate, &signal, None)?;
    let (columns, gate_values, up_values) = (down.k, gate.buffer()?, up.buffer()?);
    let source = Source::Gated {
        kind,
        x: &gate_values,
        up: &up_values,
    };
    let of = Matrices::rows(1, gate.n_elements() / columns, columns);
    let hidden = Operand::new(x.device(), Role::Signal, source, of)?;
    gate.mapped(down, &hidden, residual)
}

/// The network of few rows: the norm within the products of gate and up, and of SwiGLU the gate within that of down.
fn fused(
    x: &Tensor,
    norm: Option<(&Tensor, f32)>,
    [gate, up, down]: &[Affine<'_>; 3],
    kind: Activation,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    // The halves of one row are contiguous; of several they would have to be copied.
    let is_row = x.shape().last() == Some(&x.n_elements());
    let mut both = few_rows(x, norm, &[*gate, *up], is_row)?;
    let (up, gate) = (both.remove(1), both.remove(0));
    if kind == Activation::SiLU {
        let up = up.buffer()?;
        let prologue = Some(Prologue::Gated { up: &up });
        return few_rows_product(&gate, prologue, down, residual);
    }
    let gated = gate.activation(kind)?.mul(&up)?;
    few_rows_product(&gated, None, down, residual)
}
