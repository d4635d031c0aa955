//! Element-wise operations, copies, fills, choices and what else works on elements alone: words behind the end, the
//! rest of a last word, gaps between strided elements, and branches that are not taken.

use half::f16;
use hlx_core::{Bool, DType};
use hlx_kernels::activation::{
    Activation, activation_backward, activation_backward_in_place, activation_forward,
};
use hlx_kernels::dropout::{Dropout, dropout};
use hlx_kernels::elementwise::{
    Band, Binary, Distribution, Draw, Unary, add, add_assign, arange, assign_strided, band, binary,
    copy_strided, fill, fill_random, linspace, masked_fill, mul, scale, scale_assign, scale_by,
    select, sub, unary,
};
use hlx_kernels::mse::{mse_backward, mse_forward};
use hlx_kernels::rope::{Rope, rope};
use hlx_kernels::testing::{ids, normal, values};
use hlx_kernels::transpose::transpose;
use hlx_kernels::{KernelError, Layout, Operand};

use crate::Entry;
use crate::run::{Run, Tensor};
use crate::ways::{CUT, MAPS};

/// Lengths with and without an end that is no whole vector.
const LENGTHS: [usize; 2] = [37, 64];

/// Every unary operation, and every binary one, on f32 and on halves.
fn operations(run: &mut Run<'_>) -> Result<(), KernelError> {
    let n = LENGTHS[0];
    let (x, y) = (run.input(&values(1, n))?, run.input(&values(2, n))?);
    let (x, y) = (Tensor::new(&x, &[n])?, Tensor::new(&y, &[n])?);
    for &operation in Unary::ALL {
        let compute = if operation == Unary::BitwiseNot {
            DType::U32
        } else {
            DType::F32
        };
        let out_dtype = if operation.is_bool() {
            DType::Bool
        } else {
            compute
        };
        let out = run.output_of(out_dtype, n)?;
        let x = match compute {
            DType::F32 => Tensor::new(&x.buffer, &[n])?,
            _ => Tensor::new(&x.buffer.view_as(DType::U32, n)?, &[n])?,
        };
        unary(
            run.device,
            operation,
            compute,
            x.operand(),
            [0.5, 1.0],
            &out,
        )?;
        run.collect(&out)?;
    }
    for &operation in Binary::ALL {
        let floats = !operation.name().contains("bitwise") && !operation.name().contains("shift");
        let compute = if floats { DType::F32 } else { DType::U32 };
        let out_dtype = if operation.is_bool() {
            DType::Bool
        } else {
            compute
        };
        let out = run.output_of(out_dtype, n)?;
        let of = |t: &Tensor| Tensor::new(&t.buffer.view_as(compute, n)?, &[n]);
        let (x, y) = (of(&x)?, of(&y)?);
        binary(
            run.device,
            operation,
            compute,
            x.operand(),
            y.operand(),
            &out,
        )?;
        run.collect(&out)?;
    }
    Ok(())
}

/// Types of less than a word, whose last word is theirs in part.
fn halves_and_bytes(run: &mut Run<'_>) -> Result<(), KernelError> {
    for n in [5, 7] {
        let halves: Vec<f16> = normal(1, n).into_iter().map(f16::from_f32).collect();
        let bytes: Vec<u8> = ids(2, n, 256).into_iter().map(|id| id as u8).collect();
        let truths: Vec<Bool> = ids(3, n, 2)
            .into_iter()
            .map(|id| Bool::from(id == 1))
            .collect();
        let (halves, bytes, truths) =
            (run.typed(&halves)?, run.typed(&bytes)?, run.typed(&truths)?);
        let of = |buffer| Tensor::new(buffer, &[n]);
        let (halves, bytes, truths) = (of(&halves)?, of(&bytes)?, of(&truths)?);
        for (x, compute, dtypes) in [
            (&halves, DType::F32, [DType::F16, DType::F32]),
            (&bytes, DType::U32, [DType::U8, DType::U32]),
        ] {
            for dtype in dtypes {
                let out = run.output_of(dtype, n)?;
                unary(
                    run.device,
                    Unary::Square,
                    compute,
                    x.operand(),
                    [0.0, 0.0],
                    &out,
                )?;
                run.collect(&out)?;
                let out = run.output_of(dtype, n)?;
                binary(
                    run.device,
                    Binary::Add,
                    compute,
                    x.operand(),
                    x.operand(),
                    &out,
                )?;
                run.collect(&out)?;
                let out = run.output_of(dtype, n)?;
                copy_strided(run.device, x.operand(), &out)?;
                run.collect(&out)?;
            }
            let out = run.output_of(x.buffer.dtype(), n)?;
            select(run.device, truths.operand(), x.operand(), x.operand(), &out)?;
            run.collect(&out)?;
            let out = run.output_of(x.buffer.dtype(), n)?;
            masked_fill(run.device, x.operand(), truths.operand(), 1.0, &out)?;
            run.collect(&out)?;
        }
    }
    Ok(())
}

/// What a condition does not choose, and what a mask covers, is not read.
fn choices(run: &mut Run<'_>) -> Result<(), KernelError> {
    let n = 67;
    let chosen: Vec<u32> = ids(1, n, 2);
    let truths: Vec<Bool> = chosen.iter().map(|&id| Bool::from(id == 1)).collect();
    let condition = Tensor::new(&run.typed(&truths)?, &[n])?;
    let a = run.input_hiding(&values(2, n), |at| chosen[at] == 0)?;
    let b = run.input_hiding(&values(3, n), |at| chosen[at] == 1)?;
    let (a, b) = (Tensor::new(&a, &[n])?, Tensor::new(&b, &[n])?);
    let out = run.output(n)?;
    select(
        run.device,
        condition.operand(),
        a.operand(),
        b.operand(),
        &out,
    )?;
    run.collect(&out)?;
    let out = run.output(n)?;
    masked_fill(run.device, b.operand(), condition.operand(), -1.5, &out)?;
    run.collect(&out)
}

/// Elements between the columns of a part, and rows that a step leaves out.
fn gaps(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (rows, columns, first, seen) = (9, 40, 3, 30);
    let is_gap =
        |at: usize| at / columns % 2 == 1 || !(first..first + seen).contains(&(at % columns));
    let [x, y] = [1, 2].map(|seed| run.input_hiding(&values(seed, rows * columns), is_gap));
    let (x, y) = (x?, y?);
    let argument = |reason| KernelError::Argument {
        operation: "unread",
        reason,
    };
    let whole = Layout::contiguous(&[rows, columns])?;
    let part = whole.slice(1, (first, first + seen, 1)).map_err(argument)?;
    let part = part.slice(0, (0, rows, 2)).map_err(argument)?;
    let transposed = part.permute(&[1, 0]).map_err(argument)?;
    let n = part.n_elements();
    for layout in [&part, &transposed] {
        let of = |buffer| Operand { buffer, layout };
        let outs = [run.output(n)?, run.output(n)?, run.output(n)?];
        copy_strided(run.device, of(&x), &outs[0])?;
        binary(
            run.device,
            Binary::Mul,
            DType::F32,
            of(&x),
            of(&y),
            &outs[1],
        )?;
        unary(
            run.device,
            Unary::Tanh,
            DType::F32,
            of(&x),
            [0.0, 0.0],
            &outs[2],
        )?;
        run.collect_all(&outs)?;
        let halves = run.output_of(DType::F16, n)?;
        copy_strided(run.device, of(&x), &halves)?;
        run.collect(&halves)?;
    }
    // Only the part of a target is written; what lies between keeps what it holds.
    let target = run.input(&values(3, rows * columns))?;
    let from = Operand {
        buffer: &x,
        layout: &part,
    };
    let to = Operand {
        buffer: &target,
        layout: &part,
    };
    assign_strided(run.device, from, to)?;
    run.collect(&target)?;
    narrow_targets(run)
}

/// Bytes that share their words with those between them.
fn narrow_targets(run: &mut Run<'_>) -> Result<(), KernelError> {
    let bytes: Vec<u8> = (0..35).collect();
    let (x, target) = (run.typed(&bytes)?, run.typed(&bytes[..33])?);
    let argument = |reason| KernelError::Argument {
        operation: "unread",
        reason,
    };
    let of = |n: usize| {
        Layout::contiguous(&[n])?
            .slice(0, (1, 31, 3))
            .map_err(argument)
    };
    let (from, to) = (of(35)?, of(33)?);
    let from = Operand {
        buffer: &x,
        layout: &from,
    };
    let to = Operand {
        buffer: &target,
        layout: &to,
    };
    assign_strided(run.device, from, to)?;
    // The rest of the last word is the neighbour's.
    let words = run.device.download::<u8>(&target)?;
    let copy = run.typed(&words[..32])?;
    run.collect(&copy)
}

/// Maps of f32 with kernels of their own.
fn maps(run: &mut Run<'_>) -> Result<(), KernelError> {
    for n in LENGTHS {
        let (x, y) = (run.input(&values(1, n))?, run.input(&values(2, n))?);
        let factor = run.input(&[0.7])?;
        let outs: Result<Vec<_>, _> = (0..7).map(|_| run.output(n)).collect();
        let outs = outs?;
        add(run.device, &x, &y, &outs[0])?;
        sub(run.device, &x, &y, &outs[1])?;
        mul(run.device, &x, &y, &outs[2])?;
        scale(run.device, &x, 0.3, &outs[3])?;
        scale_by(run.device, &x, &factor, &outs[4])?;
        let sum = run.input(&values(3, n))?;
        add_assign(run.device, &sum, &x)?;
        scale_assign(run.device, &sum, &factor)?;
        let (loss, scale) = (run.output(n)?, run.input(&[0.5])?);
        mse_forward(run.device, &x, &y, &loss)?;
        mse_backward(run.device, &x, &y, &scale, &outs[5])?;
        let counter = run.ids(&[2, 1])?;
        let config = Dropout {
            p: 0.4,
            seed: 7,
            purpose: 1,
            batch: 1,
            time: 1,
            width: n,
        };
        dropout(run.device, &x, &outs[6], &counter, &config)?;
        run.collect_all(&outs)?;
        run.collect_all([&sum, &loss])?;
    }
    Ok(())
}

/// Elements that are dropped: they are +0, whatever they were.
fn dropped(run: &mut Run<'_>) -> Result<(), KernelError> {
    let config = Dropout {
        p: 0.4,
        seed: 7,
        purpose: 1,
        batch: 2,
        time: 3,
        width: 11,
    };
    let n = 66;
    let counter = run.ids(&[2, 1])?;
    let (ones, mask) = (run.memory.input(run.device, &[1.0; 66])?, run.output(n)?);
    dropout(run.device, &ones, &mask, &counter, &config)?;
    let mask = run.device.download::<f32>(&mask)?;
    let x = run.input_hiding(&values(1, n), |at| mask[at] == 0.0)?;
    let y = run.output(n)?;
    dropout(run.device, &x, &y, &counter, &config)?;
    run.collect(&y)
}

/// Activations, whose kernels are maps too.
fn activations(run: &mut Run<'_>) -> Result<(), KernelError> {
    let n = LENGTHS[0];
    let x = run.input(&values(1, n))?;
    for &kind in Activation::ALL {
        let (y, dx, dy) = (run.output(n)?, run.output(n)?, run.input(&normal(4, n))?);
        activation_forward(run.device, kind, &x, &y)?;
        activation_backward(run.device, kind, &x, &dy, &dx)?;
        activation_backward_in_place(run.device, kind, &x, &dy)?;
        run.collect_all([&y, &dx, &dy])?;
    }
    Ok(())
}

/// Elements that are functions of their index.
fn fills(run: &mut Run<'_>) -> Result<(), KernelError> {
    let n = 37;
    for dtype in [DType::F32, DType::F16, DType::U8] {
        let outs: Result<Vec<_>, _> = (0..3).map(|_| run.output_of(dtype, n)).collect();
        let outs = outs?;
        fill(run.device, 3.0, &outs[0])?;
        arange(run.device, 1.0, 2.0, &outs[1])?;
        let draw = Draw {
            seed: 1,
            stream: 2,
            purpose: 3,
        };
        let range = Distribution::Uniform {
            low: 0.0,
            high: 9.0,
        };
        fill_random(run.device, range, draw, &outs[2])?;
        run.collect_all(&outs)?;
    }
    let (line, triangle) = (run.output(n)?, run.output(35)?);
    linspace(run.device, -1.0, 1.0, &line)?;
    let sizes = Band {
        rows: 5,
        columns: 7,
        low: None,
        high: Some(0),
    };
    band(run.device, sizes, &triangle)?;
    run.collect_all([&line, &triangle])
}

/// Transposed and rotated matrices.
fn transposed_and_rotated(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (rows, columns) = (33, 37);
    let x = run.input(&values(1, rows * columns))?;
    let y = run.output(rows * columns)?;
    transpose(run.device, &x, rows, columns, &y)?;
    run.collect(&y)?;
    let sizes = Rope {
        rows: 3,
        heads: 2,
        width: 9,
        scale: 1.0,
        inverse: false,
    };
    let (x, y) = (run.input(&normal(2, 54))?, run.output(54)?);
    let (positions, frequencies) = (run.ids(&[0, 7, 1000])?, run.input(&[1.0, 0.3, 0.01])?);
    rope(run.device, &x, &positions, &frequencies, &y, &sizes)?;
    run.collect(&y)
}

/// The bodies.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("every unary and binary operation", &[], operations),
        Entry::new("types of less than a word", &[], halves_and_bytes),
        Entry::new("branches that are not chosen", &[], choices),
        Entry::new("gaps between strided elements", &MAPS[1..], gaps),
        Entry::new("maps", MAPS, maps),
        Entry::new("dropped elements", MAPS, dropped),
        Entry::new("activations", &[], activations),
        Entry::new("fills", &[], fills),
        Entry::new(
            "transposed and rotated matrices",
            CUT,
            transposed_and_rotated,
        ),
    ]
}
