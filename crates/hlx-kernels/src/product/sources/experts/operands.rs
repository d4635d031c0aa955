//! The products of experts, of operands in whichever form they are.

use hlx_core::{Buffer, Device};

use super::{
    ExpertsColumns, ExpertsProduct, experts_product, experts_product_integers,
    experts_weight_gradient, experts_weight_gradient_integers,
};
use crate::KernelError;
use crate::product::Operand;
use crate::product::formats::Format;

/// Multiplies each expert's rows of `x`, \[rows, K\], with its weight and overwrites `y`, \[rows, N\], as [`experts_product`].
///
/// # Errors
/// As [`experts_product`].
pub fn experts_multiply(
    device: &Device,
    x: &Operand,
    weights: &[Buffer],
    bounds: &Buffer,
    y: &Buffer,
    product: &ExpertsProduct,
) -> Result<(), KernelError> {
    match x {
        Operand::Floats(x, _) => experts_product(device, x, weights, bounds, y, product),
        Operand::Quantised(x, _) => {
            experts_product_integers(device, x, weights, bounds, y, product)
        }
    }
}

/// What the gradients of the experts' weights are made of: dy, \[rows, M\], and x, \[rows, N\], of all experts.
pub struct ExpertsGradient<'a>(Form<'a>);

#[allow(clippy::large_enum_variant)] // One value per pass.
enum Form<'a> {
    Floats {
        dy: &'a Buffer,
        x: &'a Buffer,
        widths: [usize; 2],
        bounds: &'a Buffer,
    },
    Quantised(ExpertsColumns),
}

impl<'a> ExpertsGradient<'a> {
    /// Prepares both, of `widths` \[M, N\]: `bounds` are those of so many experts and shards, of as many tokens each;
    /// `dy_rows` is dy as the operand of another product, where there is one.
    ///
    /// # Errors
    /// As [`ExpertsColumns::new`].
    pub fn new(
        device: &Device,
        [dy, x]: [&'a Buffer; 2],
        dy_rows: Option<&Operand>,
        widths: [usize; 2],
        bounds: &'a Buffer,
        shard_tokens: usize,
    ) -> Result<Self, KernelError> {
        if Format::of(device).is_none() {
            return Ok(Self(Form::Floats {
                dy,
                x,
                widths,
                bounds,
            }));
        }
        let dy_rows = match dy_rows {
            Some(Operand::Quantised(rows, _)) => Some(rows),
            _ => None,
        };
        let [m, n] = widths;
        let columns = ExpertsColumns::new(device, (dy, m), dy_rows, (x, n), bounds, shard_tokens)?;
        Ok(Self(Form::Quantised(columns)))
    }

    /// Computes the gradient of one expert's weight, a partial sum per shard, \[shards, M, N\], overwritten or added to.
    ///
    /// # Errors
    /// As [`experts_weight_gradient`].
    pub fn of_weight(
        &self,
        device: &Device,
        [expert, shards]: [usize; 2],
        dweight: &Buffer,
        accumulate: bool,
    ) -> Result<(), KernelError> {
        let target = (dweight, accumulate);
        match &self.0 {
            Form::Quantised(columns) => {
                experts_weight_gradient_integers(device, columns, [expert, shards], target)
            }
            Form::Floats {
                dy,
                x,
                widths: [m, n],
                bounds,
            } => {
                let of = (*bounds, expert, shards);
                experts_weight_gradient(device, (dy, *m), (x, *n), of, target)
            }
        }
    }
}
