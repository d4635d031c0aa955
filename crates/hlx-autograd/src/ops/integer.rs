//! Matrix products, and the three of an affine map, in the integer arithmetic (`docs/numerics.md`): what is wide and what
//! is narrow, and over which axis each operand has its exponents.

#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use hlx_core::{Arithmetic, Buffer, Device};
use hlx_kernels::KernelError;
use hlx_kernels::product::quantised::{
    Beside, IntegerProduct, Preparation, Prepared, Source, Width, integer_product,
};
use hlx_kernels::product::{Epilogue, widened};

use crate::graph::saved::prepares_results;
use crate::{Result, Tensor};

/// The arithmetic of a product, with the operand that carries the step's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    Portable,
    Integer(Wide),
}

/// Which operand of a product over integers is wide; the other one is narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wide {
    Left,
    Right,
}

impl Law {
    /// That of a product of inputs: the left one is wide.
    pub fn of_inputs(device: &Device) -> Self {
        match device.arithmetic() {
            Arithmetic::Portable => Self::Portable,
            Arithmetic::Integer => Self::Integer(Wide::Left),
        }
    }

    /// That of a product of which one operand is an incoming gradient.
    pub fn of_gradient(self, gradient: Wide) -> Self {
        match self {
            Self::Portable => Self::Portable,
            Self::Integer(_) => Self::Integer(gradient),
        }
    }
}

/// Computes C = A B of `batch` matrices of \[M, K\] and \[K, N\]: rows of A and columns of B have an exponent each
/// piece. An operand comes with whether its matrices are stored as their transposes.
pub(super) fn matmul(
    device: &Device,
    [(a, a_is_turned), (b, b_is_turned)]: [(&Buffer, bool); 2],
    [batch, m, n, k]: [usize; 4],
    wide: Wide,
    c: &Buffer,
) -> Result<(), KernelError> {
    if k == 0 {
        return Ok(device.fill(c, 0)?);
    }
    let of = |is_rows: bool, rows: usize, width| match is_rows {
        true => Preparation::of_rows(batch * rows, k, width),
        false => Preparation::of_columns(batch, k, rows, width),
    };
    let [of_a, of_b] = match wide {
        Wide::Left => [Width::Wide, Width::Narrow],
        Wide::Right => [Width::Narrow, Width::Wide],
    };
    let a = Prepared::new(device, a, of(!a_is_turned, m, of_a))?;
    let b = Prepared::new(device, b, of(b_is_turned, n, of_b))?;
    let (operands, sizes) = match wide {
        Wide::Left => ([&a, &b], IntegerProduct::new(m, n, k)),
        Wide::Right => ([&b, &a], IntegerProduct::new(n, m, k)),
    };
    let turned = wide == Wide::Right;
    let product = IntegerProduct {
        batch,
        turned,
        ..sizes
    };
    integer_product(device, operands, None, c, &product, Epilogue::None)
}

/// The sizes of y = x Wᵀ: rows of x, columns of x, rows of W.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub rows: usize,
    pub k: usize,
    pub n: usize,
}

/// A tensor's rows, \[.., k\], as wide integers: kept ones, or such as are computed where the tensor's values are.
pub(super) fn rows_of(x: &Tensor, rows: usize, k: usize) -> Result<Prepared> {
    let (device, of) = (x.device(), Preparation::of_rows(rows, k, Width::Wide));
    x.kept_integers(&of, || {
        let origin = x.recipe().and_then(|again| again.origin.as_ref());
        match origin.filter(|_| prepares_results(device)) {
            // The rows of norms come with them.
            Some(origin) if !origin.is_of_norm() => {
                origin.with_source(|x| Ok(Prepared::new(device, x, of)?))
            }
            _ => Ok(Prepared::new(device, &x.buffer()?, of)?),
        }
    })
}

/// Computes y = x Wᵀ + bias: x is wide, with an exponent a row; W narrow, with one a row.
pub(super) fn forward(
    device: &Device,
    x: &Prepared,
    (weight, bias): (&Tensor, Option<&Buffer>),
    y: &Buffer,
    Sizes { rows, k, n }: Sizes,
    epilogue: Epilogue<'_>,
) -> Result<()> {
    let weight = narrow(weight, Preparation::of_rows(n, k, Width::Narrow))?;
    let shape = IntegerProduct::new(rows, n, k);
    Ok(integer_product(
        device,
        [x, &weight],
        bias,
        y,
        &shape,
        epilogue,
    )?)
}

/// A gradient that comes in, of which two products are made: the first prepares its rows for the second.
pub(super) struct Incoming<'a> {
    pub buffer: &'a Buffer,
    /// Whether there is a second product.
    reads_rows: bool,
    rows: OnceCell<Prepared>,
}

impl<'a> Incoming<'a> {
    pub fn new(buffer: &'a Buffer, reads_rows: bool) -> Self {
        Self {
            buffer,
            reads_rows,
            rows: OnceCell::new(),
        }
    }

    /// Its rows, wide.
    fn rows(&self, device: &Device, rows: usize, n: usize) -> Result<Prepared, KernelError> {
        let of = Preparation::of_rows(rows, n, Width::Wide);
        match self.rows.get() {
            Some(prepared) => Ok(prepared.clone()),
            None => Prepared::new(device, self.buffer, of),
        }
    }

    /// Its columns of all shards, wide.
    pub fn columns(&self, device: &Device, sizes: [usize; 3]) -> Result<Columns<'a>, KernelError> {
        let of = of_columns(sizes, Width::Wide);
        if !self.reads_rows {
            return Columns::new(device, self.buffer, of);
        }
        let [shards, per_shard, n] = sizes;
        let of_rows = Preparation::of_rows(shards * per_shard, n, Width::Wide);
        let [rows, columns] = Prepared::rows_and_columns(device, self.buffer, of_rows, of)?;
        // A second pass over the same gradient finds equal rows.
        let _ = self.rows.set(rows.clone());
        Ok(Columns {
            values: self.buffer,
            columns,
            rows: Some(rows),
        })
    }
}

/// The columns of a gradient, wide, and its rows where they have been prepared too.
pub(super) struct Columns<'a> {
    values: &'a Buffer,
    columns: Prepared,
    rows: Option<Prepared>,
}

impl<'a> Columns<'a> {
    fn new(device: &Device, values: &'a Buffer, of: Preparation) -> Result<Self, KernelError> {
        Ok(Self {
            values,
            columns: Prepared::new(device, values, of)?,
            rows: None,
        })
    }

    /// Those of one shard, \[rows of a shard, columns\].
    pub fn of_shard(
        device: &Device,
        dy: &'a Buffer,
        [per_shard, n]: [usize; 2],
    ) -> Result<Self, KernelError> {
        Self::new(device, dy, of_columns([1, per_shard, n], Width::Wide))
    }
}

/// The columns of a weight, narrow, for [`input_gradient`].
pub(super) fn columns_of(weight: &Tensor, k: usize, n: usize) -> Result<Prepared> {
    narrow(weight, Preparation::of_columns(1, n, k, Width::Narrow))
}

/// A weight as integers, kept ones or new ones.
fn narrow(weight: &Tensor, of: Preparation) -> Result<Prepared> {
    weight.kept_integers(&of, || {
        let device = weight.device();
        let values = widened(device, &weight.buffer()?)?;
        Ok(Prepared::new(device, &values, of)?)
    })
}

/// Computes dx = dy W: dy is wide, with an exponent a row; W narrow, with one a column.
pub(super) fn input_gradient(
    device: &Device,
    dy: &Incoming<'_>,
    weight: &Prepared,
    dx: &Buffer,
    Sizes { rows, k, n }: Sizes,
    epilogue: Epilogue<'_>,
) -> Result<(), KernelError> {
    let dy = dy.rows(device, rows, n)?;
    let shape = IntegerProduct::new(rows, k, n);
    integer_product(device, [&dy, weight], None, dx, &shape, epilogue)
}

/// Computes dyᵀ x of each shard, \[shards, M, N\], or, if dy is the right operand, xᵀ dy, \[shards, N, M\]: dy is wide and x
/// narrow, both with an exponent a column and shard. Positions without a gradient, such as padding, count in neither.
pub(super) fn weight_gradient(
    device: &Device,
    (dy, wide): (&Columns<'_>, Wide),
    x: Source<'_>,
    [m, n]: [usize; 2],
    [shards, per_shard]: [usize; 2],
    out: &Buffer,
    accumulate: bool,
) -> Result<(), KernelError> {
    let of_x = of_columns([shards, per_shard, n], Width::Narrow);
    let beside = match &dy.rows {
        Some(rows) => Beside::Prepared(rows),
        None => Beside::Values(dy.values, m),
    };
    let x = Prepared::columns_beside(device, x, of_x, beside)?;
    let product = IntegerProduct {
        batch: shards,
        accumulate,
        turned: wide == Wide::Right,
        ..IntegerProduct::new(m, n, per_shard)
    };
    integer_product(
        device,
        [&dy.columns, &x],
        None,
        out,
        &product,
        Epilogue::None,
    )
}

/// The columns of \[shards, rows of a shard, columns\], with one exponent each: where a row is among those of its shard
/// changes nothing.
fn of_columns([shards, per_shard, columns]: [usize; 3], width: Width) -> Preparation {
    Preparation::of_columns(shards, per_shard, columns, width).whole()
}
