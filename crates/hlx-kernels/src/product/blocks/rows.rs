//! The values of weights in blocks: rows that are looked up by id, as those of an embedding.

use hlx_core::{Buffer, DType, Device, arith, as_u32, multiversion};

use super::format::{BlockFormat, PANEL};
use super::packed::{BlockRows, factors_of};
use crate::Result;
use crate::error::{check_dtype, check_len, check_sizes};
use crate::kernel::Kernel;
use crate::map::GROUP_THREADS;
use crate::parallel::{self, read, write};

shader!(integer::{block_rows as shader});

const NAME: &str = "block_rows";
/// Rows of a task.
const TASK_ROWS: usize = 16;

/// Looks up rows of a weight \[rows, k\]: `y[i, :] = (d scale) q - dmin min`, in this order in f32, of the row `ids[i]`; y \[n, k\].
/// In NF4 it is `d` times the table's number.
/// An id past the rows gives NaN.
///
/// # Errors
/// If a buffer has another type or length, and if the launch fails.
pub fn block_rows(device: &Device, ids: &Buffer, weight: &BlockRows, y: &Buffer) -> Result<()> {
    let (n, format, [rows, k]) = (ids.len(), weight.format, weight.sizes);
    check_sizes(NAME, &[n, k])?;
    check_dtype(NAME, "y", y, DType::F32)?;
    check_len(NAME, "y", y, [n, k])?;
    check_len(NAME, "the weight", &weight.words, format.words([rows, k]))?;
    if n * k == 0 {
        return Ok(());
    }
    let of_row = weight.n_bytes() / rows.max(1);
    let kernel = Kernel::new(NAME, &shader::SHADER)
        .constants(format.constants())
        .reads([ids])
        .writes([y])
        .reads([&weight.words])
        .bytes(n * (4 + 4 * k + of_row));
    let push = push!(shader => n, rows, terms: k);
    let groups = (n * k / 16).div_ceil(GROUP_THREADS);
    kernel.launch(device, push, groups, move |[ids, words], [y]| {
        let words = as_u32(words);
        let pieces = (write(y, TASK_ROWS * k), read(as_u32(ids), TASK_ROWS));
        parallel::for_each(pieces, |_, (y, ids)| {
            for (y, &id) in y.chunks_mut(k).zip(ids) {
                match (id as usize) < rows {
                    true => row_values(format, words, id as usize, rows, y),
                    false => y.fill(f32::NAN),
                }
            }
        });
    })
}

/// Computes all values of a weight, \[rows, k\].
///
/// # Errors
/// What the device reports.
pub fn block_values(device: &Device, weight: &BlockRows) -> Result<Buffer> {
    let ids: Vec<u32> = (0..weight.sizes[0] as u32).collect();
    let y = device.alloc_shape(&weight.sizes)?;
    block_rows(device, &device.buffer_of(&ids)?, weight, &y)?;
    Ok(y)
}

/// The values of a row, from the words of all.
fn row_values(format: &BlockFormat, words: &[u32], row: usize, rows: usize, y: &mut [f32]) {
    let (places, chunk) = (format.places(), format.chunk());
    let of_panel = words.len() / rows.div_ceil(PANEL);
    let panel = &words[row / PANEL * of_panel..][..of_panel];
    let chunks = panel.chunks_exact(places.words * PANEL);
    for (words, y) in chunks.zip(y.chunks_mut(chunk)) {
        let word = |at: usize| words[at * PANEL + row % PANEL];
        for (block, y) in y.chunks_mut(format.block).enumerate() {
            let of_block = factors_of(format, block, |at| word(places.factors + at));
            for (group, y) in y.chunks_mut(format.group).enumerate() {
                let byte = |first: usize| word(first + group / 4) >> (8 * (group % 4));
                let [scale, min] = match format.has_scales {
                    true => [
                        f32::from(byte(places.scales) as i8),
                        match format.has_mins {
                            true => f32::from(byte(places.mins) as u8),
                            false => 0.0,
                        },
                    ],
                    false => [1.0, 1.0],
                };
                let mut q = [0.0; 32];
                for (i, q) in q[..format.group].iter_mut().enumerate() {
                    let term = block * format.block + group * format.group + i;
                    *q = number(format, places.high, term, &word);
                }
                let factors = [of_block[0], scale, of_block[1], min];
                group_values(&q[..format.group], factors, format.has_mins, y);
            }
        }
    }
}

/// What an integer of a chunk stands for in a value.
fn number(format: &BlockFormat, high: usize, term: usize, word: &impl Fn(usize) -> u32) -> f32 {
    let [[low_at, low_shift], [high_at, high_shift]] = format.place_of(term % 32);
    let unit = term / 32;
    let [low_bits, high_bits] = format.bits;
    let mut bits = word(unit * low_bits + low_at) >> low_shift & ((1 << low_bits) - 1);
    if high_bits > 0 {
        let upper = word(high + unit * high_bits + high_at) >> high_shift & ((1 << high_bits) - 1);
        bits |= upper << low_bits;
    }
    format.number_of(bits)
}

multiversion! {
    /// The values of a group: of its integers or numbers, and of d, the scale, dmin and the minimum.
    fn group_values<A>(q: &[f32], of_group: [f32; 4], has_mins: bool, y: &mut [f32]) {
        let [d, scale, dmin, min] = of_group;
        let scale = A::mul(d, scale);
        let least = if has_mins { A::mul(dmin, min) } else { 0.0 };
        for (y, q) in y.iter_mut().zip(q) {
            *y = arith::sub(A::mul(scale, *q), least);
        }
    }
}
