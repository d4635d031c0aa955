//! The cases over typed, strided and broadcast operands: copies and operations of two tensors.

use anyhow::{Result, bail};
use hlx_core::{Buffer, DType, Device};
use hlx_kernels::elementwise::{
    Binary, Unary, assign_strided, binary, copy_strided, select, unary,
};
use hlx_kernels::{Layout, Operand};

use crate::maker::{Launches, Maker};

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

fn values(device: &Device, shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor {
        buffer: Maker(device).values(shape.iter().product())?,
        layout: Layout::contiguous(shape)?,
    })
}

/// Prepares a case of the family; the sizes are those of the result, before it is transposed.
///
/// # Errors
/// A device without the memory; an operation that does not exist.
pub fn strided(device: &Device, op: &str, sizes: &[usize]) -> Result<Launches> {
    let n = sizes.iter().product();
    let (device, out) = (device.clone(), Maker(device).empty(n)?);
    match (op, sizes) {
        ("transposed", _) => {
            let x = values(&device, sizes)?.permuted(&[1, 0])?;
            Ok(Box::new(move || copy_strided(&device, x.operand(), &out)))
        }
        ("permuted", _) => {
            let x = values(&device, sizes)?.permuted(&[0, 2, 1, 3])?;
            Ok(Box::new(move || copy_strided(&device, x.operand(), &out)))
        }
        ("exp", _) => {
            let x = values(&device, sizes)?;
            Ok(Box::new(move || {
                unary(&device, Unary::Exp, DType::F32, x.operand(), [0.0; 2], &out)
            }))
        }
        ("to_bf16", _) => {
            let (x, out) = (values(&device, sizes)?, device.alloc_typed(DType::BF16, n)?);
            Ok(Box::new(move || copy_strided(&device, x.operand(), &out)))
        }
        ("cat", &[rows, cols]) => cat(device, rows, cols, out),
        ("add_row" | "add_transposed", &[rows, cols]) => {
            let x = values(&device, sizes)?;
            let y = match op {
                "add_row" => values(&device, &[cols])?,
                _ => values(&device, &[cols, rows])?.permuted(&[1, 0])?,
            };
            Ok(Box::new(move || {
                binary(
                    &device,
                    Binary::Add,
                    DType::F32,
                    x.operand(),
                    y.operand(),
                    &out,
                )
            }))
        }
        ("where", _) => {
            let (a, b) = (values(&device, sizes)?, values(&device, sizes)?);
            let condition = Tensor {
                buffer: device.alloc_typed(DType::Bool, n)?,
                layout: a.layout.clone(),
            };
            let zero = values(&device, &[1])?;
            let (of, to) = (a.operand(), &condition.buffer);
            binary(&device, Binary::Gt, DType::F32, of, zero.operand(), to)?;
            Ok(Box::new(move || {
                select(&device, condition.operand(), a.operand(), b.operand(), &out)
            }))
        }
        _ => bail!("no operation `{op}` over strided operands"),
    }
}

/// Two halves of the columns, each written to its place.
fn cat(device: Device, rows: usize, cols: usize, out: Buffer) -> Result<Launches> {
    let half = cols / 2;
    let parts = [
        values(&device, &[rows, half])?,
        values(&device, &[rows, cols - half])?,
    ];
    let whole = Layout::contiguous(&[rows, cols])?;
    let place = |start, end| whole.slice(1, (start, end, 1)).map_err(anyhow::Error::msg);
    let places = [place(0, half)?, place(half, cols)?];
    Ok(Box::new(move || {
        for (part, layout) in parts.iter().zip(&places) {
            let buffer = &out;
            assign_strided(&device, part.operand(), Operand { buffer, layout })?;
        }
        Ok(())
    }))
}
