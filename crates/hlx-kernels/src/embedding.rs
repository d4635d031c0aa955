//! Embedding: rows of a table looked up by id, and the gradient summed back by id.
//!
//! Forward: `y[row, :] = weight[ids[row], :]`; ids `[n]`, weight `[V, C]`, y `[n, C]`. An id
//! outside the vocabulary gives a row of NaN, so that it cannot go unnoticed.
//!
//! Backward: `dweight[s, id, :]` is the chain of additions of `dy[p, :]` over the positions `p` of
//! shard `s` with that id, in order of position, from +0 or from the stored value; it ends by
//! turning -0 into +0. dweight `[S, V, C]`. One writer a row and column: a workgroup (on the CPU:
//! a task that owns a range of ids) follows a token from its first position to its last. Rows
//! without a position are +0, or keep their value when accumulating. An id outside the
//! vocabulary adds nothing. For large vocabularies [`embedding_backward_sum`] adds the shards in the
//! same kernel.

use hlx_core::{Buffer, Device, Shader, as_u32};

use crate::error::{Result, check_sizes, check_that};
use crate::kernel::Kernel;
use crate::map::GROUP_THREADS;
use crate::parallel::{self, read, write};
use crate::tuning::KernelTuning;

shader!(embedding::{forward, backward, backward_sum});

/// Vectors or elements of a thread of the forward where there are enough.
const AHEAD: usize = 4;
/// Threads that fill a processor.
const FULL_THREADS: usize = 1024;

/// Looks up `n` rows of `width` elements: `y[row, :] = weight[ids[row], :]`.
///
/// # Errors
/// A shape error if a buffer has another length than the sizes give, or the device's error.
pub fn embedding_forward(
    device: &Device,
    ids: &Buffer,
    weight: &Buffer,
    y: &Buffer,
    n: usize,
    vocabulary: usize,
    width: usize,
) -> Result<()> {
    const NAME: &str = "embedding_forward";
    check_sizes(NAME, &[n, width])?;
    check_sizes(NAME, &[vocabulary, width])?;
    // Of the weight only the rows that are looked up are read.
    let kernel = Kernel::new(NAME, &forward::SHADER)
        .read("ids", ids, n)?
        .read("weight", weight, [vocabulary, width])?
        .write("y", y, [n, width])?
        .bytes(4 * (n + 2 * n * width));
    let vectors = width.is_multiple_of(4);
    let parts = if vectors { n * width / 4 } else { n * width };
    // Several parts a thread where the device is full anyway.
    let fills = parts >= AHEAD * FULL_THREADS * device.tuning().processors;
    let ahead = if fills { AHEAD } else { 1 };
    let push = push!(forward => n, vocabulary, width);
    let groups = parts.div_ceil(GROUP_THREADS * ahead);
    let kernel = kernel.constants(constants!(0: vectors, ahead));
    kernel.launch(device, push, groups, move |[ids, weight], [y]| {
        let pieces = (write(y, 64 * width), read(as_u32(ids), 64));
        parallel::for_each(pieces, |_, (y, ids)| {
            for (y, &id) in y.chunks_mut(width).zip(ids) {
                let id = id as usize;
                if id < vocabulary {
                    y.copy_from_slice(&weight[id * width..][..width]);
                } else {
                    y.fill(f32::NAN);
                }
            }
        });
    })
}

/// The sizes of an embedding's gradient.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingSizes {
    /// Shards of the ids.
    pub shards: usize,
    /// Ids of a shard.
    pub rows_per_shard: usize,
    /// Rows of the table.
    pub vocabulary: usize,
    /// Elements of a row.
    pub width: usize,
}

impl EmbeddingSizes {
    /// The kernel over a gradient of these extents, whose rows without a token keep what they hold.
    fn kernel<'a>(
        &self,
        name: &'static str,
        shader: &'static Shader,
        [ids, dy, dweight]: [&'a Buffer; 3],
        extents: &[usize],
    ) -> Result<Kernel<'a>> {
        let (shards, width) = (self.shards, self.width);
        check_sizes(name, &[shards, self.rows_per_shard, width])?;
        check_sizes(name, &[shards, self.vocabulary, width])?;
        let rows = shards * self.rows_per_shard;
        let kernel = Kernel::new(name, shader)
            .read("ids", ids, rows)?
            .read("dy", dy, [rows, width])?
            .update("dweight", dweight, extents)?;
        check_that(name, dweight.len() <= u32::MAX as usize, || {
            let extents: Vec<String> = extents.iter().map(usize::to_string).collect();
            let extents = extents.join(" x ");
            format!("{extents} elements are more than a kernel can index")
        })?;
        Ok(kernel)
    }

    fn launch(
        self,
        device: &Device,
        kernel: &Kernel<'_>,
        cpu: fn(&[u32], &[f32], &mut [f32], Self),
    ) -> Result<()> {
        let (rows, width) = (self.shards * self.rows_per_shard, self.width);
        // A thread's columns are vectors of four where they can be.
        let a_thread = if width.is_multiple_of(4) { 4 } else { 1 };
        let groups = rows * (width / a_thread).div_ceil(GROUP_THREADS);
        // The block is that of both shaders.
        let push = push!(backward =>
            rows, rows_per_shard: self.rows_per_shard, vocabulary: self.vocabulary, width
        );
        kernel.launch(device, push, groups, move |[ids, dy], [dweight]| {
            if !dweight.is_empty() && rows > 0 {
                cpu(as_u32(ids), dy, dweight, self);
            }
        })
    }
}

/// Sums `dy` `[shards, rows_per_shard, width]` by id into `dweight` `[shards, vocabulary, width]`,
/// which it overwrites, or with `accumulate` continues from.
///
/// # Errors
/// As [`embedding_forward`].
pub fn embedding_backward(
    device: &Device,
    ids: &Buffer,
    dy: &Buffer,
    dweight: &Buffer,
    sizes: EmbeddingSizes,
    accumulate: bool,
) -> Result<()> {
    let extents = [sizes.shards, sizes.vocabulary, sizes.width];
    let buffers = [ids, dy, dweight];
    let kernel = sizes.kernel("embedding_backward", &backward::SHADER, buffers, &extents)?;
    if !accumulate {
        device.fill(dweight, 0)?;
    }
    sizes.launch(device, &kernel, backward_on_cpu)
}

/// Whether [`embedding_backward_sum`] takes these sizes and is the faster way on this device.
pub fn sums_shards(device: &Device, shards: usize, vocabulary: usize) -> bool {
    matches!(shards, 2 | 4 | 8) && vocabulary >= KernelTuning::of(device).embedding_sum_from
}

/// Sums `dy` by id and over the shards into `dweight` `[vocabulary, width]`, which it overwrites:
/// the bits of [`embedding_backward`] and then [`shard_sum`](crate::reduce::shard_sum), without
/// their `[shards, vocabulary, width]`. The partial sum of a shard without the token is +0, and
/// takes its place in the tree as such. 2, 4 or 8 shards.
///
/// # Errors
/// As [`embedding_forward`].
pub fn embedding_backward_sum(
    device: &Device,
    ids: &Buffer,
    dy: &Buffer,
    dweight: &Buffer,
    sizes: EmbeddingSizes,
) -> Result<()> {
    const NAME: &str = "embedding_backward_sum";
    let (shards, extents) = (sizes.shards, [sizes.vocabulary, sizes.width]);
    let kernel = sizes.kernel(NAME, &backward_sum::SHADER, [ids, dy, dweight], &extents)?;
    check_that!(NAME, matches!(shards, 2 | 4 | 8) => "{shards} shards, expected 2, 4 or 8")?;
    let rows = shards * sizes.rows_per_shard;
    let kernel = kernel
        .bytes(4 * (rows + 2 * rows * sizes.width))
        .flops((rows * sizes.width) as u64);
    device.fill(dweight, 0)?;
    sizes.launch(device, &kernel, backward_sum_on_cpu)
}

/// Every task owns a range of ids, of which it makes the chains of one position after the other.
fn backward_sum_on_cpu(ids: &[u32], dy: &[f32], dweight: &mut [f32], sizes: EmbeddingSizes) {
    let (shards, width) = (sizes.shards, sizes.width);
    let mut positions: Vec<u32> = (0..ids.len() as u32).collect();
    positions.retain(|p| (ids[*p as usize] as usize) < sizes.vocabulary);
    positions.sort_by_key(|p| ids[*p as usize]);
    let tokens = positions.chunk_by(|a, b| ids[*a as usize] == ids[*b as usize]);
    let mut rest = dweight;
    let mut first_id = 0;
    let mut tasks = Vec::new();
    for token in tokens {
        let id = ids[token[0] as usize] as usize;
        let (row, after) = rest[(id - first_id) * width..].split_at_mut(width);
        tasks.push((token, row));
        (rest, first_id) = (after, id + 1);
    }
    parallel::each(&mut tasks, |(token, row)| {
        parallel::scratch(shards * width, |partials: &mut [f32]| {
            sum_token(token, sizes.rows_per_shard, dy, partials, row);
        });
    });
}

/// Sums the rows of a token at its positions, a chain per shard, then the shards in pairs. A shard without the token would add
/// +0, which changes no sum: none is -0.
fn sum_token(
    positions: &[u32],
    rows_per_shard: usize,
    dy: &[f32],
    partials: &mut [f32],
    row: &mut [f32],
) {
    let width = row.len();
    let shard_of = |p: &u32| *p as usize / rows_per_shard;
    // The shards that have the token, and where in `partials` their sums are: a slot each, in order.
    let mut shards = [0; 8];
    let mut held = 0;
    for positions in positions.chunk_by(|a, b| shard_of(a) == shard_of(b)) {
        let total = &mut partials[held * width..][..width];
        let mut rows = positions
            .iter()
            .map(|p| &dy[*p as usize * width..][..width]);
        if let Some(row) = rows.next() {
            copy_row(total, row);
        }
        rows.for_each(|row| add_row(total, row));
        shards[held] = shard_of(&positions[0]);
        held += 1;
    }
    let mut distance = 1;
    while held > 1 {
        let mut next = 0;
        let mut at = 0;
        while at < held {
            let pair = shards[at] / (2 * distance);
            let is_pair = at + 1 < held && shards[at + 1] / (2 * distance) == pair;
            if is_pair {
                let (left, right) = partials.split_at_mut((at + 1) * width);
                add_row(&mut left[at * width..], &right[..width]);
            }
            partials.copy_within(at * width..(at + 1) * width, next * width);
            shards[next] = shards[at];
            (next, at) = (next + 1, at + 1 + usize::from(is_pair));
        }
        (held, distance) = (next, 2 * distance);
    }
    row.copy_from_slice(&partials[..width]);
}

/// Every task owns a range of ids of one shard and walks over all of the shard's positions.
fn backward_on_cpu(ids: &[u32], dy: &[f32], dweight: &mut [f32], sizes: EmbeddingSizes) {
    let (rows_per_shard, width) = (sizes.rows_per_shard, sizes.width);
    let ranges = (2 * hlx_core::cpu::threads_of_launch()).div_ceil(sizes.shards);
    let a_range = sizes.vocabulary.div_ceil(ranges) * width;
    let tasks = parallel::tiles(dweight, sizes.vocabulary * width, a_range);
    parallel::for_each(tasks, |_, (shard, first, table)| {
        let first_id = first / width;
        let n_ids = table.len() / width;
        let rows = shard * rows_per_shard..(shard + 1) * rows_per_shard;
        for row in rows {
            let id = (ids[row] as usize).wrapping_sub(first_id);
            if id < n_ids {
                let row = &dy[row * width..][..width];
                add_row(&mut table[id * width..][..width], row);
            }
        }
    });
}

multiversion! {
    // Replacing -0 by +0 after every addition gives the same chain as once at its end: the sign
    // of a zero reaches a sum only if both terms are zeros.
    fn add_row(total: &mut [f32], row: &[f32]) {
        for (total, x) in total.iter_mut().zip(row) {
            *total = hlx_core::arith::pos0(*total + x);
        }
    }

    // The first addition of a chain, to +0.
    fn copy_row(total: &mut [f32], row: &[f32]) {
        for (total, x) in total.iter_mut().zip(row) {
            *total = hlx_core::arith::pos0(0.0 + x);
        }
    }
}

#[cfg(test)]
mod tests;
