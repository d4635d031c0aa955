//! Weights in blocks: the panel's rows past the last one, and rows that no id names.

use hlx_core::{Arithmetic, DType};
use hlx_kernels::KernelError;
use hlx_kernels::product::blocks::{BlockFormat, BlockRows, block_rows};
use hlx_kernels::product::{End, Matrices, Operand, Prologue, Role, multiply, multiply_few};
use hlx_kernels::testing::normal;

use crate::Entry;
use crate::run::Run;
use crate::ways::INTEGERS;

/// A weight whose rows behind the last of a panel may be anything.
fn weight(
    run: &mut Run<'_>,
    format: &'static BlockFormat,
    [n, k]: [usize; 2],
) -> Result<BlockRows, KernelError> {
    let packed = BlockRows::new(run.device, format, [n, k], |row, at, block| {
        let integers = block.q.iter_mut().enumerate();
        integers.for_each(|(i, q)| *q = ((7 * row + 3 * at + i) % 4) as i8);
        (block.d, block.dmin) = (0.0625, 0.125);
    })?;
    let words: Vec<u32> = run.device.download(&packed.words)?;
    let of_panel = words.len() / n.div_ceil(16);
    let words = run.ids_hiding(&words, |at| at / of_panel * 16 + at % 16 >= n)?;
    Ok(BlockRows { words, ..packed })
}

/// Products of few rows and of many, by all instructions.
fn products(run: &mut Run<'_>) -> Result<(), KernelError> {
    let device = &run.device.with_arithmetic(Arithmetic::Integer);
    for (name, m, n, k) in [
        ("Q4_K", 3, 21, 512),
        ("Q5_0", 2, 35, 96),
        ("Q6_K", 19, 70, 256),
    ] {
        let format = BlockFormat::named(name).expect("a format");
        let blocks = Operand::Blocks(weight(run, format, [n, k])?);
        let x = run.input(&normal(1, m * k))?;
        let (bias, added) = (run.input(&normal(3, n))?, run.input(&normal(4, m * n))?);
        let (c, few) = (run.output(m * n)?, run.output(m * n)?);
        let rows = Operand::new(device, Role::Signal, &x, Matrices::rows(1, m, k))?;
        multiply(device, [&rows, &blocks], End::NONE, &c)?;
        multiply_few(
            device,
            (&x, None),
            &blocks,
            (Some(&bias), Some(&added)),
            &few,
        )?;
        run.collect_all([&c, &few])?;
    }
    Ok(())
}

/// Products of few rows behind a norm and behind a gate.
fn prologues(run: &mut Run<'_>) -> Result<(), KernelError> {
    let device = &run.device.with_arithmetic(Arithmetic::Integer);
    let (m, n, k) = (3, 21, 512);
    let format = BlockFormat::named("Q4_K").expect("a format");
    let blocks = Operand::Blocks(weight(run, format, [n, k])?);
    let x = run.input(&normal(1, m * k))?;
    let (gain, up) = (run.input(&normal(2, k))?, run.input(&normal(3, m * k))?);
    let norm = Prologue::RmsNorm {
        gain: &gain,
        eps: 1e-5,
    };
    for prologue in [norm, Prologue::Gated { up: &up }] {
        let c = run.output(m * n)?;
        multiply_few(device, (&x, Some(prologue)), &blocks, (None, None), &c)?;
        run.collect_all([&c])?;
    }
    Ok(())
}

/// Rows by id, one of which is past the last.
fn rows(run: &mut Run<'_>) -> Result<(), KernelError> {
    let ids = [3_u32, 17, 0, 19, 3];
    let format = BlockFormat::named("Q4_K").expect("a format");
    let blocks = weight(run, format, [19, 512])?;
    let of_ids = run.ids(&ids)?;
    let y = run.output_of(DType::F32, ids.len() * 512)?;
    block_rows(run.device, &of_ids, &blocks, &y)?;
    run.collect(&y)
}

/// The bodies.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("products with blocks", INTEGERS, products),
        Entry::new(
            "products with blocks behind a norm and a gate",
            INTEGERS,
            prologues,
        ),
        Entry::new("rows of blocks", &[], rows),
    ]
}
