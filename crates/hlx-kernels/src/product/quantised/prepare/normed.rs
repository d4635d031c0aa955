//! Norms whose results are wide rows of integers at once, and nowhere stored as floats.

use hlx_core::{Binding, Buffer, DType, Device, Launch, Shader, groups_1d, push_bytes};
use rayon::prelude::*;

use super::{GRANULE, NAME, PIECE, Preparation, Prepared, Width, check_dtype, prepare_row};
use crate::error::{check_len, check_that};
use crate::lanes::{ROWS_A_GROUP, RowGroup, check_rows, rows_a_task};
use crate::{KernelError, layer_norm, rms_norm};

shader!(layer_norm_shader, integer::prepare_layer_norm);
shader!(layer_norm_held_shader, integer::prepare_layer_norm_held);
shader!(rms_norm_shader, integer::prepare_rms_norm);
shader!(rms_norm_held_shader, integer::prepare_rms_norm_held);

use layer_norm_shader::Push;

/// Computes a [layer norm](crate::layer_norm) of `x`, \[rows, cols\], as wide rows of integers, with the bits of
/// [`prepare`](super::prepare) behind it, and its `stats`, \[rows, 2\]; a row is one piece.
///
/// # Errors
/// If a buffer has another length, a row more than [`PIECE`] elements or none, or the launch fails.
pub fn prepare_layer_norm(
    device: &Device,
    x: &Buffer,
    [weight, bias]: [&Buffer; 2],
    stats: &Buffer,
    eps: f32,
    [rows, cols]: [usize; 2],
) -> Result<Prepared, KernelError> {
    check_len(NAME, "bias", bias, cols)?;
    let norm = Norm {
        shaders: [&layer_norm_shader::SHADER, &layer_norm_held_shader::SHADER],
        gain: [weight, bias],
        stats: (stats, 2),
        eps,
        body: layer_norm::forward_rows,
    };
    norm.prepare(device, x, [rows, cols])
}

/// Computes an [RMS norm](crate::rms_norm) of `x`, \[rows, cols\], as [`prepare_layer_norm`] does; `stats` is \[rows\].
///
/// # Errors
/// As [`prepare_layer_norm`].
pub fn prepare_rms_norm(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    stats: &Buffer,
    eps: f32,
    [rows, cols]: [usize; 2],
) -> Result<Prepared, KernelError> {
    let norm = Norm {
        shaders: [&rms_norm_shader::SHADER, &rms_norm_held_shader::SHADER],
        // There is no bias; what is bound in its place is not read.
        gain: [weight, weight],
        stats: (stats, 1),
        eps,
        body: |x, weight, _, y, stats, eps| rms_norm::forward_rows(x, weight, y, stats, eps),
    };
    norm.prepare(device, x, [rows, cols])
}

/// x, weight, bias, y, stats and eps of some rows.
type Body = fn(&[f32], &[f32], &[f32], &mut [f32], &mut [f32], f32);

/// A norm of one kind.
struct Norm<'a> {
    /// The one that reads rows several times, and the one that holds them.
    shaders: [&'static Shader; 2],
    gain: [&'a Buffer; 2],
    /// With the values of a row.
    stats: (&'a Buffer, usize),
    eps: f32,
    body: Body,
}

impl Norm<'_> {
    fn prepare(
        &self,
        device: &Device,
        x: &Buffer,
        [rows, cols]: [usize; 2],
    ) -> Result<Prepared, KernelError> {
        check_rows(NAME, rows, cols)?;
        check_that(NAME, cols <= PIECE, || {
            format!("a norm's row has {cols} elements, expected at most {PIECE}")
        })?;
        let (stats, n_stats) = self.stats;
        check_dtype(NAME, "x", x, DType::F32)?;
        check_len(NAME, "x", x, [rows, cols])?;
        check_len(NAME, "weight", self.gain[0], cols)?;
        check_len(NAME, "stats", stats, [rows, n_stats])?;
        let prepared = Prepared::empty(device, Preparation::of_rows(rows, cols, Width::Wide))?;
        if rows == 0 {
            return Ok(prepared);
        }
        let held = RowGroup::held(device, cols);
        let mut constants = held.map_or(Vec::new(), |cut| cut.specialization(cols).to_vec());
        constants.push((4, u32::from(cols.is_multiple_of(4))));
        let push = Push {
            rows: rows as u32,
            cols: cols as u32,
            eps: self.eps,
            words: (prepared.of.padded() / 4) as u32,
        };
        let launch = Launch {
            name: "prepare_integer_norm",
            shader: self.shaders[usize::from(held.is_some())],
            specialization: &constants,
            bindings: &[
                Binding::Read(x),
                Binding::Read(self.gain[0]),
                Binding::Read(self.gain[1]),
                Binding::Write(&prepared.digits),
                Binding::Write(&prepared.exponents),
                Binding::Rewrite(stats),
            ],
            push: push_bytes(&push),
            groups: held.map_or(groups_1d(rows.div_ceil(ROWS_A_GROUP)), |cut| {
                cut.groups(rows)
            }),
        };
        let (body, eps) = (self.body, self.eps);
        device.launch(launch, move |bindings| {
            let ([x, weight, bias], [digits, exponents, stats]) = bindings.split();
            let digits: &mut [i8] = bytemuck::cast_slice_mut(digits);
            let padded = cols.div_ceil(GRANULE) * GRANULE;
            let (upper, lower) = digits[..2 * rows * padded].split_at_mut(rows * padded);
            let n = rows_a_task(cols);
            (
                x.par_chunks(n * cols),
                upper.par_chunks_mut(n * padded),
                lower.par_chunks_mut(n * padded),
                bytemuck::cast_slice_mut::<_, i32>(exponents).par_chunks_mut(n),
                stats.par_chunks_mut(n * n_stats),
            )
                .into_par_iter()
                .for_each(|(x, upper, lower, exponents, stats)| {
                    let mut y = vec![0.0; x.len()];
                    body(x, weight, bias, &mut y, stats, eps);
                    let digits = upper.chunks_mut(padded).zip(lower.chunks_mut(padded));
                    let rows = y.chunks(cols).zip(digits).zip(exponents);
                    for ((y, (upper, lower)), exponent) in rows {
                        *exponent = prepare_row(y, upper, lower);
                    }
                });
        })?;
        Ok(prepared)
    }
}
