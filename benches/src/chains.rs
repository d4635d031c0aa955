//! Chains of element-wise operations, which become one launch where they are recorded.

use anyhow::Result;
use hlx_core::{Buffer, DType, Device};
use hlx_kernels::elementwise::{Binary, Unary, binary, unary};
use hlx_kernels::{KernelError, Layout, Operand};

use crate::maker::{Launches, Maker};

/// What the steps of a chain read: two tables and a row.
struct Operands {
    a: Buffer,
    b: Buffer,
    row: Buffer,
    table: Layout,
    of_row: Layout,
}

/// One element-wise launch over the last result.
enum Stage {
    Of(Unary),
    With(Binary, fn(&Operands) -> Operand<'_>),
}

fn a(operands: &Operands) -> Operand<'_> {
    let (buffer, layout) = (&operands.a, &operands.table);
    Operand { buffer, layout }
}

fn b(operands: &Operands) -> Operand<'_> {
    let (buffer, layout) = (&operands.b, &operands.table);
    Operand { buffer, layout }
}

fn row(operands: &Operands) -> Operand<'_> {
    let (buffer, layout) = (&operands.row, &operands.of_row);
    Operand { buffer, layout }
}

/// `relu(tanh(a b + row) a - b)`, and after it six more. PyTorch's side has the same.
const STAGES: [Stage; 12] = [
    Stage::With(Binary::Mul, b),
    Stage::With(Binary::Add, row),
    Stage::Of(Unary::Tanh),
    Stage::With(Binary::Mul, a),
    Stage::With(Binary::Sub, b),
    Stage::Of(Unary::ReLU),
    Stage::Of(Unary::Square),
    Stage::With(Binary::Mul, row),
    Stage::Of(Unary::Exp),
    Stage::With(Binary::Maximum, a),
    Stage::Of(Unary::Neg),
    Stage::With(Binary::Add, b),
];

/// Prepares `chain_6` and `chain_12` over a table; `_compiled` is for PyTorch's side.
///
/// # Errors
/// A device without the memory.
pub fn chains(device: &Device, op: &str, rows: usize, cols: usize) -> Result<Launches> {
    let make = Maker(device);
    let operands = Operands {
        a: make.values(rows * cols)?,
        b: make.values(rows * cols)?,
        row: make.values(cols)?,
        table: Layout::contiguous(&[rows, cols])?,
        of_row: Layout::contiguous(&[cols])?,
    };
    let count = if op.starts_with("chain_6") { 6 } else { 12 };
    let (device, out) = (device.clone(), make.empty(rows * cols)?);
    Ok(Box::new(move || {
        run(&device, &STAGES[..count], &operands, &out)
    }))
}

fn run(
    device: &Device,
    stages: &[Stage],
    operands: &Operands,
    out: &Buffer,
) -> Result<(), KernelError> {
    let mut last = operands.a.clone();
    for (number, stage) in stages.iter().enumerate() {
        let result = match number + 1 == stages.len() {
            true => out.clone(),
            false => device.alloc(out.len())?,
        };
        let x = Operand {
            buffer: &last,
            layout: &operands.table,
        };
        match stage {
            Stage::Of(of) => unary(device, *of, DType::F32, x, [0.0; 2], &result)?,
            Stage::With(of, other) => {
                binary(device, *of, DType::F32, x, other(operands), &result)?;
            }
        }
        last = result;
    }
    Ok(())
}
