//! Norms whose results are quantised rows with two digits at once, and nowhere stored as floats.

use hlx_core::{Binding, Buffer, DType, Device};

use super::super::{Digits, PIECE};
use super::rows::DigitRows;
use super::{NAME, Preparation, Prepared};
use crate::Result;
use crate::error::check_dtype;
use crate::lanes::{check_rows, rows_a_task};
use crate::norm::{Gain, Norm, Shaders, forward_rows};
use crate::parallel::{self, read, write};

shader!(integer::{
    prepare_layer_norm as layer_norm_shader, prepare_layer_norm_held as layer_norm_held_shader,
    prepare_rms_norm as rms_norm_shader, prepare_rms_norm_held as rms_norm_held_shader,
});

static SHADERS: Shaders = [
    [&rms_norm_shader::SHADER, &layer_norm_shader::SHADER],
    [
        &rms_norm_held_shader::SHADER,
        &layer_norm_held_shader::SHADER,
    ],
];

/// Computes a [norm](crate::norm) of `x`, \[rows, cols\], as quantised rows with two digits, with the bits of
/// [`prepare`](super::prepare) behind it, and its `stats`, \[rows, n_stats\]. A row is one piece, and digits lie in rows, as a
/// workgroup has few of them. `weight` and, in a layer norm, `bias` are \[cols\].
///
/// # Errors
/// If a buffer has another length, a row more than [`PIECE`] elements or none, a layer norm no bias or an RMS norm one, or
/// the launch fails.
pub fn prepare_norm(
    device: &Device,
    norm: &Norm,
    x: &Buffer,
    weight: &Buffer,
    bias: Option<&Buffer>,
    stats: &Buffer,
) -> Result<Prepared> {
    let (norm, rows, cols) = (*norm, norm.rows, norm.cols);
    check_rows(NAME, rows, cols)?;
    check_that!(NAME, cols <= PIECE =>
        "a norm's row has {cols} elements, expected at most {PIECE}")?;
    norm.check_bias(NAME, "bias", bias)?;
    check_dtype(NAME, "x", x, DType::F32)?;
    let of = Preparation::of_rows(rows, cols, Digits::Two);
    let prepared = Prepared::empty(device, of)?;
    if rows == 0 {
        return Ok(prepared);
    }
    let constants = constants!(4: cols.is_multiple_of(4));
    let parameters = [norm.eps.to_bits(), (prepared.of.padded() / 4) as u32];
    let (row_kernel, kernel) = norm.kernel(device, ["prepare_integer_norm"; 2], &SHADERS)?;
    let kernel = kernel
        .read("x", x, [rows, cols])?
        .read("weight", weight, cols)?
        .read_if("bias", bias, cols)?
        .writes([&prepared.digits, &prepared.exponents])
        .checked("stats", Binding::Rewrite(stats), [rows, norm.n_stats()])?;
    let body = move |[x, weight, bias]: [&[f32]; 3], written: [&mut [f32]; 3]| {
        let [digits, exponents, stats] = written;
        let bias = norm.centred.then_some(bias);
        let n = rows_a_task(cols);
        let mut tasks = DigitRows::new(digits, exponents, &of, 1).tasks(n);
        let stats = write(stats, n * norm.n_stats());
        let tasks = (read(x, n * cols), write(&mut tasks, 1), stats);
        parallel::for_each(tasks, |_, (x, task, stats)| {
            parallel::scratch(x.len(), |y: &mut [f32]| {
                forward_rows(x, Gain { weight, bias }, norm.eps, y, stats);
                y.chunks(cols).for_each(|y| task[0].prepare(y, PIECE));
            });
        });
    };
    row_kernel.launch(device, &kernel, &constants, &parameters, body)?;
    Ok(prepared)
}
