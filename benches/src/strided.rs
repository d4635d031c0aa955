//! The cases over typed, strided and broadcast operands: copies and operations of two tensors.

use anyhow::{Result, bail};
use hlx_core::{Buffer, Context, DType};
use hlx_kernels::elementwise::{
    Binary, Unary, assign_strided, binary, copy_strided, select, unary,
};
use hlx_kernels::{Layout, Operand};

use crate::work::{Launches, Maker};

/// A tensor: a buffer and where its elements lie.
struct Tensor {
    buffer: Buffer,
    layout: Layout,
}

impl Tensor {
    fn operand(&self) -> Operand<'_> {
        Operand {
            buffer: &self.buffer,
            layout: &self.layout,
        }
    }

    /// The same elements in another order of dimensions.
    fn permuted(mut self, order: &[usize]) -> Result<Self> {
        self.layout = self.layout.permute(order).map_err(anyhow::Error::msg)?;
        Ok(self)
    }
}

fn values(ctx: &Context, shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor {
        buffer: Maker(ctx).values(shape.iter().product())?,
        layout: Layout::contiguous(shape)?,
    })
}

/// Prepares a case of the family; the sizes are those of the result, before it is transposed.
///
/// # Errors
/// A device without the memory; an operation that does not exist.
pub fn strided(ctx: &Context, op: &str, sizes: &[usize]) -> Result<Launches> {
    let n = sizes.iter().product();
    let (ctx, out) = (ctx.clone(), Maker(ctx).empty(n)?);
    match (op, sizes) {
        ("transposed", _) => {
            let x = values(&ctx, sizes)?.permuted(&[1, 0])?;
            Ok(Box::new(move || copy_strided(&ctx, x.operand(), &out)))
        }
        ("permuted", _) => {
            let x = values(&ctx, sizes)?.permuted(&[0, 2, 1, 3])?;
            Ok(Box::new(move || copy_strided(&ctx, x.operand(), &out)))
        }
        ("exp", _) => {
            let x = values(&ctx, sizes)?;
            Ok(Box::new(move || {
                unary(&ctx, Unary::Exp, DType::F32, x.operand(), [0.0; 2], &out)
            }))
        }
        ("to_bf16", _) => {
            let (x, out) = (values(&ctx, sizes)?, ctx.alloc_typed(DType::BF16, n)?);
            Ok(Box::new(move || copy_strided(&ctx, x.operand(), &out)))
        }
        ("cat", &[rows, cols]) => cat(ctx, rows, cols, out),
        ("add_row" | "add_transposed", &[rows, cols]) => {
            let x = values(&ctx, sizes)?;
            let y = match op {
                "add_row" => values(&ctx, &[cols])?,
                _ => values(&ctx, &[cols, rows])?.permuted(&[1, 0])?,
            };
            Ok(Box::new(move || {
                binary(
                    &ctx,
                    Binary::Add,
                    DType::F32,
                    x.operand(),
                    y.operand(),
                    &out,
                )
            }))
        }
        ("where", _) => {
            let (a, b) = (values(&ctx, sizes)?, values(&ctx, sizes)?);
            let condition = Tensor {
                buffer: ctx.alloc_typed(DType::Bool, n)?,
                layout: a.layout.clone(),
            };
            let zero = values(&ctx, &[1])?;
            let (of, to) = (a.operand(), &condition.buffer);
            binary(&ctx, Binary::Gt, DType::F32, of, zero.operand(), to)?;
            Ok(Box::new(move || {
                select(&ctx, condition.operand(), a.operand(), b.operand(), &out)
            }))
        }
        _ => bail!("no operation `{op}` over strided operands"),
    }
}

/// Two halves of the columns, each written to its place.
fn cat(ctx: Context, rows: usize, cols: usize, out: Buffer) -> Result<Launches> {
    let half = cols / 2;
    let parts = [
        values(&ctx, &[rows, half])?,
        values(&ctx, &[rows, cols - half])?,
    ];
    let whole = Layout::contiguous(&[rows, cols])?;
    let place = |start, end| whole.slice(1, (start, end, 1)).map_err(anyhow::Error::msg);
    let places = [place(0, half)?, place(half, cols)?];
    Ok(Box::new(move || {
        for (part, layout) in parts.iter().zip(&places) {
            let buffer = &out;
            assign_strided(&ctx, part.operand(), Operand { buffer, layout })?;
        }
        Ok(())
    }))
}
