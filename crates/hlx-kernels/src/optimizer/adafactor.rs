//! Adafactor (Shazeer and Stern 2018): the mean square of a matrix's gradient as the product of a row and a column.
//!
//! As `torch.optim.Adafactor`. A parameter of two or more dimensions is `B` matrices of `R` rows and `C` columns, the last
//! two; its state is `row` \[B, R\] and `col` \[B, C\]. Any other has the mean squares themselves. For step t, with the numbers
//! `w = t^beta2_decay` (in the place of 1 - beta2) and `rho = min(lr, 1 / sqrt t)` (the rate of the step):
//!
//! - `g` is multiplied by `clip` and held within the value's limit, as for all steps;
//! - `s = sum of g^2` of each row ([`reduce`], squares rounded), then
//!   `row = fma(w, s (1 / C) - row, row)`; the same of each column, with 1 / R;
//! - `v = (row / max((sum of row) (1 / R), eps1)) col`; without factors `v = fma(w, g^2 - v, v)`;
//! - `u = g / max(sqrt v, eps1)`;
//! - `factor = rho max(eps2, norm(p) (1 / sqrt n)) / max(1, norm(u) (1 / (d sqrt n)))` of the parameter's n elements, norms as
//!   [`global_norm`];
//! - `p = fma(-factor, u, (1 - lr lambda) p)`.
//!
//! Reciprocals are rounded to f32 once. A parameter is updated whole by one device: its sums do not split.

use hlx_core::arith::{div, sqrt};
use hlx_core::{Buffer, Device};

use super::HYPER_LEN;
use super::formulas::{adafactor_apply_chunk, adafactor_factor_chunk, adafactor_gradient_chunk};
use super::frame::{Groups, Update, UpdateKernel};
use super::hyper::Numbers;
use crate::elementwise::scale;
use crate::error::{Result, check_len, check_sizes};
use crate::kernel::Kernel;
use crate::layout::{Layout, Operand};
use crate::map::{CHUNK, GROUP_THREADS, windows};
use crate::parallel::{self, write};
use crate::reduce::global_norm;
use crate::reduce_axes::{Reduction, reduce};

shader!(optimizer::{
    adafactor_gradient, adafactor_factor, adafactor_normalise, adafactor_scale, adafactor_apply,
});

/// The numbers of Adafactor beside those of [`Hyper`](super::Hyper).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adafactor {
    /// The least root of a mean square, and the least mean of a row.
    pub epsilon: f32,
    /// The least root mean square of a parameter that its step is in proportion to.
    pub least_scale: f32,
    /// The largest root mean square of a direction; longer ones are scaled down.
    pub threshold: f32,
}

/// What Adafactor holds of a parameter, zeros before the first step.
#[derive(Clone, Copy, Debug)]
pub enum Squares<'a> {
    /// Of `B` matrices of `R` rows and `C` columns.
    Factored {
        /// `[B, R, C]`.
        shape: [usize; 3],
        /// The mean square of each row, \[B, R\].
        row: &'a Buffer,
        /// The mean square of each column, \[B, C\].
        col: &'a Buffer,
    },
    /// The mean square of each element.
    Whole(&'a Buffer),
}

/// Updates one parameter and its state. The numbers of `update`, whose groups are [`Groups::One`], have `beta2` equal to
/// `1 - w` and a step factor that makes the rate of the step rho.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error.
pub fn adafactor_step(
    device: &Device,
    update: &Update<'_>,
    squares: Squares<'_>,
    numbers: &Adafactor,
) -> Result<()> {
    let n = update.params.len();
    if let Squares::Factored { shape, row, col } = squares {
        let [batches, rows, cols] = shape;
        check_sizes("adafactor_step", &shape)?;
        check_len("adafactor_step", "params", update.params, shape)?;
        check_len("adafactor_step", "row", row, [batches, rows])?;
        check_len("adafactor_step", "col", col, [batches, cols])?;
    }
    if n == 0 {
        return Ok(());
    }
    let direction = device.alloc(n)?;
    let gradient = UpdateKernel::new("adafactor_gradient", &adafactor_gradient::SHADER);
    let written = [("direction", &direction)];
    gradient.launch(device, update, written, |n, g, [u]| {
        adafactor_gradient_chunk(n, g, u);
    })?;
    match squares {
        Squares::Whole(square) => {
            follow(device, update, &direction, square, true)?;
            normalise(device, &direction, [square; 3], None, numbers)?;
        }
        Squares::Factored { shape, row, col } => {
            let [batches, rows, cols] = shape;
            for (axis, mean, terms) in [(2, row, cols), (1, col, rows)] {
                let (sums, newest) = (device.alloc(mean.len())?, device.alloc(mean.len())?);
                let layout = Layout::contiguous(&shape)?;
                let squared = Operand::new(&direction, &layout);
                reduce(device, Reduction::SumOfSquares, squared, &[axis], &sums)?;
                scale(device, &sums, 1.0 / terms as f32, &newest)?;
                follow(device, update, &newest, mean, false)?;
            }
            let totals = device.alloc(batches)?;
            let layout = Layout::contiguous(&[batches, rows])?;
            reduce(
                device,
                Reduction::Sum,
                Operand::new(row, &layout),
                &[1],
                &totals,
            )?;
            normalise(
                device,
                &direction,
                [row, &totals, col],
                Some([rows, cols]),
                numbers,
            )?;
        }
    }
    let [parameter_norm, direction_norm, factor] =
        [device.alloc(1)?, device.alloc(1)?, device.alloc(1)?];
    global_norm(device, update.params, &parameter_norm)?;
    global_norm(device, &direction, &direction_norm)?;
    step_factor(
        device,
        update,
        [&parameter_norm, &direction_norm],
        &factor,
        numbers,
    )?;
    let along = Update {
        grads: &direction,
        clip: &factor,
        ..*update
    };
    let apply = UpdateKernel::new("adafactor_apply", &adafactor_apply::SHADER);
    apply.launch(device, &along, [("params", update.params)], |n, u, [p]| {
        adafactor_apply_chunk(n, u, p);
    })
}

/// Moves means towards the newest ones, or with `squares` towards the squares of what is given.
fn follow(
    device: &Device,
    update: &Update<'_>,
    newest: &Buffer,
    mean: &Buffer,
    squares: bool,
) -> Result<()> {
    let step = UpdateKernel::new("adafactor_factor", &adafactor_factor::SHADER).variant(squares);
    let towards = Update {
        grads: newest,
        ..*update
    };
    step.launch(device, &towards, [("mean", mean)], move |n, x, [f]| {
        adafactor_factor_chunk(n, squares, x, f);
    })
}

/// Divides the gradient by the root of its mean square: of rows, totals and columns, or of `row` alone without `factors`, the
/// numbers of rows and columns.
fn normalise(
    device: &Device,
    direction: &Buffer,
    [row, total, col]: [&Buffer; 3],
    factors: Option<[usize; 2]>,
    numbers: &Adafactor,
) -> Result<()> {
    let [rows, cols] = factors.unwrap_or([1, 1]);
    let (inverse_rows, epsilon) = (1.0 / rows as f32, numbers.epsilon);
    let is_factored = factors.is_some();
    for (first, count) in windows(
        direction.len(),
        hlx_core::ALIGNMENT_WORDS,
        device.max_binding_words(),
    ) {
        let window = direction.slice(first, count)?;
        let row = match is_factored {
            true => row.clone(),
            false => row.slice(first, count)?,
        };
        let total = if is_factored { total } else { &row };
        let col = if is_factored { col } else { &row };
        let push = push!(adafactor_normalise => count, first, rows, cols, inverse_rows, epsilon);
        let groups = count.div_ceil(GROUP_THREADS);
        Kernel::new("adafactor_normalise", &adafactor_normalise::SHADER)
            .constants(constants!(0: is_factored))
            .reads([&row, total, col])
            .updates([&window])
            .launch(device, push, groups, move |[row, total, col], [u]| {
                parallel::for_each(write(u, CHUNK), |piece, u| {
                    let begin = piece * CHUNK;
                    if !is_factored {
                        return whole_chunk(epsilon, &row[begin..][..u.len()], u);
                    }
                    let mut at = 0;
                    while at < u.len() {
                        let element = first + begin + at;
                        let (r, c) = (element / cols, element % cols);
                        let n = (cols - c).min(u.len() - at);
                        let col = &col[r / rows * cols + c..][..n];
                        let numbers = [row[r], total[r / rows], inverse_rows, epsilon];
                        factored_chunk(numbers, col, &mut u[at..at + n]);
                        at += n;
                    }
                });
            })?;
    }
    Ok(())
}

/// Computes the factor of the direction from the norms of the parameter and of the direction.
fn step_factor(
    device: &Device,
    update: &Update<'_>,
    [of_parameter, of_direction]: [&Buffer; 2],
    factor: &Buffer,
    numbers: &Adafactor,
) -> Result<()> {
    let Groups::One(row) = update.groups else {
        return crate::error::check_that("adafactor_step", false, || {
            "groups are a table, expected one row".to_owned()
        });
    };
    let root = (update.params.len() as f64).sqrt();
    let inverse_root = (1.0 / root) as f32;
    let inverse_limit = (1.0 / (root * f64::from(numbers.threshold))) as f32;
    let epsilon = numbers.least_scale;
    let push = push!(adafactor_scale => count: 1_u32, row, rows: 1_u32, inverse_root, epsilon,
        inverse_limit);
    let at = HYPER_LEN * row as usize;
    Kernel::new("adafactor_scale", &adafactor_scale::SHADER)
        .reads([of_parameter])
        .read("hyper", update.hyper, update.hyper.len())?
        .read("clip", update.clip, 1)?
        // The table of groups, which there is none of.
        .reads([update.clip, of_direction])
        .write("factor", factor, 1)?
        .launch(
            device,
            push,
            1,
            move |[parameter, hyper, clip, _, direction], [out]| {
                let numbers = Numbers::new(&hyper[at..at + HYPER_LEN], clip);
                let norms = [parameter[0], direction[0]];
                scale_chunk(numbers, [inverse_root, epsilon, inverse_limit], norms, out);
            },
        )
}

multiversion! {
    fn whole_chunk<A>(epsilon: f32, v: &[f32], u: &mut [f32]) {
        for (u, v) in u.iter_mut().zip(v) {
            let root = sqrt(*v);
            *u = div(*u, if root < epsilon { epsilon } else { root });
        }
    }

    fn factored_chunk<A>(numbers: [f32; 4], col: &[f32], u: &mut [f32]) {
        let [row, total, inverse_rows, epsilon] = numbers;
        let mean = A::mul(total, inverse_rows);
        let row = div(row, if mean < epsilon { epsilon } else { mean });
        for (u, col) in u.iter_mut().zip(col) {
            let root = sqrt(A::mul(row, *col));
            *u = div(*u, if root < epsilon { epsilon } else { root });
        }
    }

    fn scale_chunk<A>(n: Numbers, numbers: [f32; 3], norms: [f32; 2], out: &mut [f32]) {
        let [inverse_root, epsilon, inverse_limit] = numbers;
        let scale = A::mul(norms[0], inverse_root);
        let scale = if scale < epsilon { epsilon } else { scale };
        let over = A::mul(norms[1], inverse_limit);
        let over = if over < 1.0 { 1.0 } else { over };
        let factor = div(A::mul(-n.negative_rate, scale), over);
        out[0] = if n.clip < 0.0 { -1.0 } else { factor };
    }
}

#[cfg(test)]
mod tests;
