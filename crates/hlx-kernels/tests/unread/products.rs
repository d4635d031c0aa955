//! Products and recurrent steps: what lies behind a row's and a tile's end, between matrices, at other positions.

use hlx_core::{Arithmetic, Buffer, DType, Device, Half};
use hlx_kernels::activation::Activation;
use hlx_kernels::elementwise::copy_strided;
use hlx_kernels::product::halves::Halves;
use hlx_kernels::product::{
    End, Epilogue, FloatProduct, MatMul, Matrices, Operand, Prologue, Role, Source, matmul,
    matmul_integers, multiply, multiply_few, step_product,
};
use hlx_kernels::recurrent::{
    Cell, CellBackward, CellForward, TimeStep, cell_backward, cell_forward,
};
use hlx_kernels::testing::{ids, normal};
use hlx_kernels::{KernelError, Layout, Operand as Strided};

use crate::Entry;
use crate::run::Run;
use crate::ways::{FEW_ROWS, FUSED_TILES, INTEGERS, PROCESSORS, PRODUCTS};

/// Products in every layout, with gaps between the matrices of a batch.
fn layouts(run: &mut Run<'_>) -> Result<(), KernelError> {
    const GAP: usize = 64;
    let (m, n, k) = (66, 35, 21);
    let [stride_a, stride_b, stride_c] = [m * k, k * n, m * n].map(|len| len + GAP);
    let of = |run: &mut Run<'_>, seed, stride: usize| {
        run.input_hiding(&normal(seed, 2 * stride - GAP), |at| {
            at % stride >= stride - GAP
        })
    };
    for [trans_a, trans_b] in [[false, false], [false, true], [true, false], [true, true]] {
        let shape = MatMul {
            batch: 2,
            trans_a,
            trans_b,
            stride_a,
            stride_b,
            stride_c,
            ..MatMul::new(m, n, k)
        };
        let (a, b) = (of(run, 1, stride_a)?, of(run, 2, stride_b)?);
        let (bias, c) = (run.input(&normal(3, n))?, run.output(2 * stride_c - GAP)?);
        matmul(run.device, &a, &b, Some(&bias), &c, &shape)?;
        run.collect_where(&c, |at| at % stride_c < m * n)?;
        let stored = of(run, 4, stride_c)?;
        let more = MatMul {
            accumulate: true,
            ..shape
        };
        matmul(run.device, &a, &b, None, &stored, &more)?;
        run.collect_where(&stored, |at| at % stride_c < m * n)?;
    }
    integer_dtypes(run)
}

/// Products of integer dtypes.
fn integer_dtypes(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (5, 7, 9);
    let (a, b) = (
        run.typed(&ids(1, m * k, u32::MAX))?,
        run.typed(&ids(2, k * n, u32::MAX))?,
    );
    let c = run.output_of(DType::U32, m * n)?;
    matmul_integers(run.device, &a, &b, &c, &MatMul::new(m, n, k))?;
    run.collect(&c)
}

/// A product whose tiles are ragged on both sides, with B stored `[N,K]`, and with A stored `[K,M]`.
fn tiles(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (66, 35, 21);
    for [trans_a, trans_b] in [[false, false], [false, true], [true, false]] {
        let shape = MatMul {
            trans_a,
            trans_b,
            ..MatMul::new(m, n, k)
        };
        let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
        let c = run.output(m * n)?;
        matmul(run.device, &a, &b, None, &c, &shape)?;
        run.collect(&c)?;
    }
    Ok(())
}

/// An activation, and the addition of a residual, in a product's launch or in one behind it.
fn fused(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (34, 35, 21);
    let shape = MatMul::new(m, n, k);
    let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
    let (bias, residual) = (run.input(&normal(3, n))?, run.input(&normal(4, m * n))?);
    let outs = [run.output(m * n)?, run.output(m * n)?, run.output(m * n)?];
    let activation = Epilogue::Activation {
        kind: Activation::ReLU,
        out: &outs[1],
    };
    FloatProduct {
        bias: Some(&bias),
        epilogue: activation,
        ..FloatProduct::new([&a, &b], &outs[0], shape)
    }
    .run(run.device)?;
    FloatProduct {
        epilogue: Epilogue::Add(&residual),
        ..FloatProduct::new([&a, &b], &outs[2], shape)
    }
    .run(run.device)?;
    run.collect_all(&outs)
}

/// The other epilogues.
fn epilogues(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (34, 35, 21);
    let shape = MatMul::new(m, n, k);
    let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
    let backward = Epilogue::ActivationBackward(Activation::ReLU);
    for epilogue in [Epilogue::Scale(0.5), backward] {
        let c = run.input(&normal(5, m * n))?;
        FloatProduct {
            epilogue,
            ..FloatProduct::new([&a, &b], &c, shape)
        }
        .run(run.device)?;
        run.collect(&c)?;
    }
    Ok(())
}

/// Few rows, with what comes before the product, and a right operand of halves.
fn few_rows(run: &mut Run<'_>) -> Result<(), KernelError> {
    for (m, n, k) in [(3, 37, 24), (12, 20, 40)] {
        let shape = MatMul {
            trans_b: true,
            ..MatMul::new(m, n, k)
        };
        let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
        let bias = run.input(&normal(3, n))?;
        let (gain, up) = (run.input(&normal(6, k))?, run.input(&normal(7, m * k))?);
        let norm = Prologue::RmsNorm {
            gain: &gain,
            eps: 1e-5,
        };
        for prologue in [norm, Prologue::Gated { up: &up }] {
            let c = run.output(m * n)?;
            FloatProduct {
                bias: Some(&bias),
                prologue: Some(prologue),
                ..FloatProduct::new([&a, &b], &c, shape)
            }
            .run(run.device)?;
            run.collect(&c)?;
        }
        let halves: Vec<half::bf16> = normal(8, n * k)
            .into_iter()
            .map(half::bf16::from_f32)
            .collect();
        let (halves, c) = (run.typed(&halves)?, run.output(m * n)?);
        matmul(run.device, &a, &halves, None, &c, &shape)?;
        run.collect(&c)?;
    }
    Ok(())
}

/// Few rows whose digits the product makes itself: as they are, of a norm, and of a gate.
fn few_quantised_rows(run: &mut Run<'_>) -> Result<(), KernelError> {
    let device = &run.device.with_arithmetic(Arithmetic::Integer);
    for (m, n, k) in [(1, 35, 576), (3, 17, 320)] {
        let (x, w) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
        let (bias, added) = (run.input(&normal(3, n))?, run.input(&normal(4, m * n))?);
        let (gain, up) = (run.input(&normal(6, k))?, run.input(&normal(7, m * k))?);
        let weight = Operand::new(device, Role::Weight, &w, Matrices::rows(1, n, k))?;
        let norm = Prologue::RmsNorm {
            gain: &gain,
            eps: 1e-5,
        };
        for prologue in [None, Some(norm), Some(Prologue::Gated { up: &up })] {
            let c = run.output(m * n)?;
            let behind = (Some(&bias), Some(&added));
            multiply_few(device, (&x, prologue), &weight, behind, &c)?;
            run.collect(&c)?;
        }
    }
    Ok(())
}

/// A step reads its own position and, backward, the one before; other positions stay.
fn recurrent(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (batch, time, width) = (3, 4, 33);
    let (units, all) = (batch * width, batch * time * width);
    for (position, previous) in [(1, Some(0)), (3, None)] {
        let step = TimeStep {
            cell: Cell::Lstm,
            batch,
            time,
            width,
            position,
            previous,
        };
        let position_of = |at: usize, n: usize| at / (n * width) % time;
        let not_here = |n: usize| move |at: usize| position_of(at, n) != position;
        let here = |n: usize| move |at: usize| position_of(at, n) == position;
        let nor_before = |at: usize| {
            let at = position_of(at, 1);
            at != position && Some(at) != previous
        };
        let x = run.input_hiding(&normal(1, 4 * all), not_here(4))?;
        let (from_hidden, cell) = (
            run.input(&normal(2, 4 * units))?,
            run.input(&normal(3, units))?,
        );
        let (hidden, gates) = (run.output(units)?, run.output(4 * all)?);
        let out = run.output(2 * all)?;
        let buffers = CellForward {
            x: &x,
            from_hidden: &from_hidden,
            cells: Some(&cell),
            hidden: &hidden,
            gates: &gates,
            out: &out,
        };
        cell_forward(run.device, step, &buffers)?;
        run.collect_all([&cell, &hidden])?;
        run.collect_where(&gates, here(4))?;
        run.collect_where(&out, here(1))?;
        let gates = run.input_hiding(&normal(4, 4 * all), not_here(4))?;
        let (out, dout) = (
            run.input_hiding(&normal(5, 2 * all), nor_before)?,
            run.input_hiding(&normal(6, 2 * all), not_here(1))?,
        );
        // With a step before, the first state is not read.
        let first = run.input_hiding(&normal(7, units), |_| previous.is_some())?;
        let (dhidden, dcell) = (run.input(&normal(8, units))?, run.input(&normal(9, units))?);
        let (dstep, dgates) = (run.output(4 * units)?, run.output(4 * all)?);
        let buffers = CellBackward {
            gates: &gates,
            out: &out,
            first: &first,
            dout: &dout,
            dhidden: &dhidden,
            dcells: Some(&dcell),
            dstep: &dstep,
            dx: &dgates,
            dfrom_hidden: None,
        };
        cell_backward(run.device, step, &buffers)?;
        run.collect_all([&dcell, &dstep])?;
        run.collect_where(&dgates, here(4))?;
        let step = TimeStep {
            cell: Cell::Gru,
            ..step
        };
        gru(run, step, [units, all], &first)?;
    }
    Ok(())
}

fn gru(
    run: &mut Run<'_>,
    step: TimeStep,
    [units, all]: [usize; 2],
    first: &Buffer,
) -> Result<(), KernelError> {
    let position_of = |at: usize, n: usize| at / (n * step.width) % step.time;
    let not_here = |n: usize| move |at: usize| position_of(at, n) != step.position;
    let here = |n: usize| move |at: usize| position_of(at, n) == step.position;
    let x = run.input_hiding(&normal(1, 3 * all), not_here(3))?;
    let (from_hidden, hidden) = (
        run.input(&normal(2, 3 * units))?,
        run.input(&normal(3, units))?,
    );
    let (gates, out) = (run.output(4 * all)?, run.output(all)?);
    let buffers = CellForward {
        x: &x,
        from_hidden: &from_hidden,
        cells: None,
        hidden: &hidden,
        gates: &gates,
        out: &out,
    };
    cell_forward(run.device, step, &buffers)?;
    run.collect(&hidden)?;
    run.collect_where(&gates, here(4))?;
    run.collect_where(&out, here(1))?;
    let gates = run.input_hiding(&normal(4, 4 * all), not_here(4))?;
    let out = run.input_hiding(&normal(5, all), |at| {
        Some(position_of(at, 1)) != step.previous
    })?;
    let dout = run.input_hiding(&normal(6, all), not_here(1))?;
    let dhidden = run.input(&normal(8, units))?;
    let (dstep, dx, dfrom) = (
        run.output(3 * units)?,
        run.output(3 * all)?,
        run.output(3 * all)?,
    );
    let buffers = CellBackward {
        gates: &gates,
        out: &out,
        first,
        dout: &dout,
        dhidden: &dhidden,
        dcells: None,
        dstep: &dstep,
        dx: &dx,
        dfrom_hidden: Some(&dfrom),
    };
    cell_backward(run.device, step, &buffers)?;
    run.collect_all([&dhidden, &dstep])?;
    run.collect_where(&dx, here(3))?;
    run.collect_where(&dfrom, here(3))
}

/// The products of recurrent steps.
fn step_products(run: &mut Run<'_>) -> Result<(), KernelError> {
    let [m, n, k] = [17, 67, 37];
    let (x, w) = (run.input(&normal(1, m * k))?, run.input(&normal(2, k * n))?);
    let (bias, y) = (run.input(&normal(3, n))?, run.output(m * n)?);
    step_product(run.device, [&x, &w], Some(&bias), &y, [m, n, k], false)?;
    let stored = run.input(&normal(4, m * n))?;
    step_product(run.device, [&x, &w], None, &stored, [m, n, k], true)?;
    run.collect_all([&y, &stored])
}

/// The bodies.
/// Small integers: their sums are exact in every order, and they are rounded to no other.
fn small_integers(seed: u64, len: usize) -> Vec<f32> {
    let numbers = normal(seed, len).into_iter();
    numbers.map(|x| (3.0 * x).round()).collect()
}

/// Operands rounded to 16 bits, of each source, and their products: ends of rows, of tiles and of terms.
fn rounded(run: &mut Run<'_>) -> Result<(), KernelError> {
    for half in Half::ALL {
        let (x, up) = (
            run.input(&normal(1, 5 * 24))?,
            run.input(&normal(2, 5 * 24))?,
        );
        let (kind, x, up) = (Activation::ReLU, &x, &up);
        let (stats, rms) = (&run.input(&normal(3, 10))?, &run.input(&normal(4, 5))?);
        let (weight, bias) = (&run.input(&normal(5, 24))?, &run.input(&normal(6, 24))?);
        let norm = |stats, bias| Source::Norm {
            x,
            stats,
            weight,
            bias,
        };
        for source in [
            Source::Stored(x),
            Source::Activation { kind, x },
            Source::Gated { kind, x, up },
            norm(stats, Some(bias)),
            norm(rms, None),
        ] {
            let rounded = Halves::new(run.device, half, source, [5, 24])?;
            run.collect(rounded.values())?;
        }
        for [m, n, k] in [[5, 33, 37], [70, 68, 64]] {
            let (a, b) = (small_integers(1, m * k), small_integers(2, n * k));
            let (a, b) = (run.input(&a)?, run.input(&b)?);
            let c = run.output(m * n)?;
            products_of_halves(run.device, half, [&a, &b], &c, [m, n, k])?;
            run.collect(&c)?;
        }
    }
    Ok(())
}

/// Numbers rounded to 16 bits, as f32.
pub fn rounded_back(device: &Device, half: Half, x: &Buffer) -> Result<Buffer, KernelError> {
    let rounded = device.alloc_typed(half.dtype(), x.len())?;
    let back = device.alloc(x.len())?;
    let layout = Layout::contiguous(&[x.len()])?;
    copy_strided(device, Strided::new(x, &layout), &rounded)?;
    copy_strided(device, Strided::new(&rounded, &layout), &back)?;
    Ok(back)
}

/// A product in `fast`, or where the device has no matrices of the type, that of the CPU device.
fn products_of_halves(
    device: &Device,
    half: Half,
    operands: [&Buffer; 2],
    c: &Buffer,
    [m, n, k]: [usize; 3],
) -> Result<(), KernelError> {
    let of = [Matrices::rows(1, m, k), Matrices::rows(1, n, k)];
    let roles = [Role::Signal, Role::Weight];
    let Ok(fast) = device.in_arithmetic(Arithmetic::Fast(half)) else {
        let widened = operands.map(|x| rounded_back(device, half, x));
        let [a, b] = widened;
        let shape = MatMul {
            trans_b: true,
            ..MatMul::new(m, n, k)
        };
        return matmul(device, &a?, &b?, None, c, &shape);
    };
    let a = Operand::new(&fast, roles[0], operands[0], of[0])?;
    let b = Operand::new(&fast, roles[1], operands[1], of[1])?;
    multiply(&fast, [&a, &b], End::NONE, c)
}

pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("products, layouts", &[], layouts),
        Entry::new("products, tiles", PRODUCTS, tiles),
        Entry::new("products, fused", FUSED_TILES, fused),
        Entry::new("products, epilogues", &FUSED_TILES[3..], epilogues),
        Entry::new("products, few rows", FEW_ROWS, few_rows),
        Entry::new("products, few quantised rows", INTEGERS, few_quantised_rows),
        Entry::new("products of rounded operands", &[], rounded),
        Entry::new("recurrent steps", &[], recurrent),
        Entry::new("products of recurrent steps", PROCESSORS, step_products),
    ]
}
