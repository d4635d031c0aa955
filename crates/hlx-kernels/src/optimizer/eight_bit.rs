//! AdamW whose moments are one byte each, in blocks of 256 elements with a scale.
//!
//! The law is "Moments in 8 bits" of `docs/numerics.md`; the step of an element is AdamW's chain of the module above. A
//! parameter of fewer than [`LEAST_PACKED`] elements has f32 moments. The state of a block is its scale as a
//! word, then its bytes, four to a word: [`state_words`].

use std::ops::Range;

use hlx_core::arith::{FloatOps, div, sqrt, sub};
use hlx_core::{ALIGNMENT_WORDS, Buffer, Device, as_u32};

use super::HYPER_LEN;
use super::formulas::{adam_chunk, clipped};
use super::frame::Update;
use super::hyper::Numbers;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::parallel;

shader!(optimizer::{adamw_8bit});

/// Elements of a block.
pub const BLOCK_ELEMENTS: usize = 256;

/// Parameters of fewer elements have f32 moments.
pub const LEAST_PACKED: usize = 4096;

/// Fraction bits, from 2^-4 to 1, of the first and the second moment's bytes.
const FINE: [u32; 2] = [4, 5];

/// The bits of 2^-100: a block whose largest magnitude is less is zero.
const SMALLEST_SCALE: u32 = 27 << 23;

const INFINITY: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fc0_0000;

/// Words of the table's entry of a block.
const ENTRY: usize = 3;

/// Blocks that one task of the CPU device updates.
const TASK_BLOCKS: usize = 64;

/// The words of a moment of a parameter's first `n` elements, `n` a number of whole blocks or all.
pub fn state_words(n: usize, is_packed: bool) -> usize {
    if !is_packed {
        return n;
    }
    let (whole, rest) = (n / BLOCK_ELEMENTS, n % BLOCK_ELEMENTS);
    whole * (1 + BLOCK_ELEMENTS / 4) + if rest == 0 { 0 } else { 1 + rest.div_ceil(4) }
}

/// A parameter, or whole blocks of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedParameter {
    /// Where its elements begin among the parameters: a multiple of 64.
    pub params_at: usize,
    /// Where its moments begin in either buffer of the state.
    pub state_at: usize,
    /// How many elements it has.
    pub len: usize,
    /// Whether its moments are bytes.
    pub is_packed: bool,
    /// Its row of numbers.
    pub row: u32,
}

impl BlockedParameter {
    /// The words of either of its moments.
    pub fn state_words(&self) -> usize {
        state_words(self.len, self.is_packed)
    }
}

/// The blocks of all parameters, on the device.
#[derive(Debug)]
pub struct Blocks {
    table: Buffer,
    segments: Vec<Segment>,
    params: usize,
    state: usize,
}

/// Blocks that one launch updates, and the windows that they lie in.
#[derive(Clone, Debug)]
struct Segment {
    blocks: Range<usize>,
    params: Range<usize>,
    state: Range<usize>,
}

impl Blocks {
    /// Cuts parameters, in the order of their places, into blocks.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for a place that does not fit; what the device reports.
    pub fn new(device: &Device, parameters: &[BlockedParameter]) -> Result<Self> {
        Self::with_window(device, parameters, device.max_binding_words())
    }

    /// As [`Blocks::new`], with launches over windows of at most `window` words.
    fn with_window(
        device: &Device,
        parameters: &[BlockedParameter],
        window: usize,
    ) -> Result<Self> {
        let (mut words, mut segments) = (Vec::new(), Vec::<Segment>::new());
        let (mut params_end, mut state_end) = (0, 0);
        for one in parameters {
            let fits = one.params_at.is_multiple_of(ALIGNMENT_WORDS)
                && one.params_at >= params_end
                && one.state_at >= state_end
                && one.params_at + one.len <= u32::MAX as usize;
            check_that!("adamw_8bit_step", fits && one.row < 1 << 23 =>
                "the parameter at element {at} does not follow the one before it", at = one.params_at)?;
            for begin in (0..one.len).step_by(BLOCK_ELEMENTS) {
                let n = BLOCK_ELEMENTS.min(one.len - begin);
                let params = one.params_at + begin..one.params_at + begin + n;
                let state_at = one.state_at + state_words(begin, one.is_packed);
                let state = state_at..state_at + state_words(n, one.is_packed);
                let kind = (n as u32 - 1) | u32::from(one.is_packed) << 8 | one.row << 9;
                words.extend([params.start as u32, kind, state.start as u32]);
                (params_end, state_end) = (params.end, state.end);
                match segments.last_mut() {
                    Some(last)
                        if params.end - last.params.start <= window
                            && state.end - last.state.start <= window =>
                    {
                        last.blocks.end += 1;
                        last.params.end = params.end;
                        last.state.end = state.end;
                    }
                    _ => {
                        let first = words.len() / ENTRY - 1;
                        segments.push(Segment {
                            blocks: first..first + 1,
                            params,
                            // A window begins where a binding may.
                            state: state.start / ALIGNMENT_WORDS * ALIGNMENT_WORDS..state.end,
                        });
                    }
                }
            }
        }
        Ok(Self {
            table: device.buffer_of::<u32>(&words)?,
            segments,
            params: params_end,
            state: state_end,
        })
    }

    /// The words of either moment.
    pub fn state_len(&self) -> usize {
        self.state
    }
}

/// Updates the parameters and their moments, zeros before the first step: AdamW with moments in 8 bits. The groups of
/// `update` are left out: a parameter's row is that of [`BlockedParameter::row`].
///
/// # Errors
/// A shape error if a buffer is shorter than the blocks, or the device's error.
pub fn adamw_8bit_step(
    device: &Device,
    update: &Update<'_>,
    blocks: &Blocks,
    mean: &Buffer,
    square: &Buffer,
) -> Result<()> {
    let name = "adamw_8bit_step";
    let hyper_len = update.hyper.len();
    check_that!(name, hyper_len >= HYPER_LEN && hyper_len.is_multiple_of(HYPER_LEN) =>
        "hyper has {hyper_len} words, expected rows of {HYPER_LEN}")?;
    for (argument, buffer, least) in [
        ("params", update.params, blocks.params),
        ("grads", update.grads, blocks.params),
        ("mean", mean, blocks.state),
        ("square", square, blocks.state),
    ] {
        check_that!(name, buffer.len() >= least =>
            "{argument} has {found} elements, expected at least {least}", found = buffer.len())?;
    }
    let n_rows = hyper_len / HYPER_LEN;
    for Segment {
        blocks: range,
        params,
        state,
    } in &blocks.segments
    {
        let params_of = |buffer: &Buffer| buffer.slice(params.start, params.len());
        let state_of = |buffer: &Buffer| buffer.slice(state.start, state.len());
        let (grads, values) = (params_of(update.grads)?, params_of(update.params)?);
        let (first, second) = (state_of(mean)?, state_of(square)?);
        let (n, first_block) = (range.len(), range.start);
        let bases = [params.start, state.start];
        let push = push!(adamw_8bit => count: n, row: 0_u32, rows: n_rows, first_block,
            params_base: bases[0], state_base: bases[1]);
        Kernel::new(name, &adamw_8bit::SHADER)
            .reads([&grads])
            .read("hyper", update.hyper, hyper_len)?
            .read("clip", update.clip, 1)?
            .reads([&blocks.table])
            .updates([&values, &first, &second])
            .launch(
                device,
                push,
                n,
                move |[grads, hyper, clip, table], written: [&mut [f32]; 3]| {
                    if clip[0] >= 0.0 || clip[0].is_nan() {
                        let table = &as_u32(table)[ENTRY * first_block..][..ENTRY * n];
                        update_blocks(table, bases, grads, [hyper, clip], written);
                    }
                },
            )?;
    }
    Ok(())
}

/// Consecutive blocks, and the windows of what they update.
struct Task<'a> {
    table: &'a [u32],
    bases: [usize; 2],
    written: [&'a mut [f32]; 3],
}

/// An entry of the table.
struct Block {
    params_at: usize,
    state_at: usize,
    len: usize,
    is_packed: bool,
    row: usize,
}

impl Block {
    fn new(entry: &[u32]) -> Self {
        Self {
            params_at: entry[0] as usize,
            state_at: entry[2] as usize,
            len: (entry[1] & 255) as usize + 1,
            is_packed: entry[1] & 256 != 0,
            row: (entry[1] >> 9) as usize,
        }
    }

    fn state_end(&self) -> usize {
        self.state_at + state_words(self.len, self.is_packed)
    }
}

/// Updates the blocks of a table on the CPU; the windows begin at the places `bases`.
fn update_blocks(
    table: &[u32],
    bases: [usize; 2],
    grads: &[f32],
    [hyper, clip]: [&[f32]; 2],
    written: [&mut [f32]; 3],
) {
    let (mut tasks, mut left, mut at) = (Vec::new(), written, bases);
    for table in table.chunks(ENTRY * TASK_BLOCKS) {
        let last = Block::new(&table[table.len() - ENTRY..]);
        let ends = [last.params_at + last.len, last.state_end()];
        let lens = [ends[0] - at[0], ends[1] - at[1], ends[1] - at[1]];
        let [p, m, v] = left;
        let ((p, p_left), (m, m_left), (v, v_left)) = (
            p.split_at_mut(lens[0]),
            m.split_at_mut(lens[1]),
            v.split_at_mut(lens[2]),
        );
        left = [p_left, m_left, v_left];
        tasks.push(Task {
            table,
            bases: at,
            written: [p, m, v],
        });
        at = ends;
    }
    let n_rows = hyper.len() / HYPER_LEN;
    parallel::each(&mut tasks, |task| {
        let [params, first, second] = &mut task.written;
        for entry in task.table.chunks_exact(ENTRY) {
            let block = Block::new(entry);
            let row = HYPER_LEN * block.row.min(n_rows - 1);
            let numbers = Numbers::new(&hyper[row..row + HYPER_LEN], clip);
            let grads = &grads[block.params_at - bases[0]..][..block.len];
            let params = &mut params[block.params_at - task.bases[0]..][..block.len];
            let state = block.state_at - task.bases[1]..block.state_end() - task.bases[1];
            let (first, second) = (&mut first[state.clone()], &mut second[state]);
            match block.is_packed {
                true => packed_block(numbers, grads, params, first, second),
                false => adam_chunk(numbers, true, grads, params, first, second),
            }
        }
    });
}

multiversion! {
    /// One step of a block whose moments are bytes.
    fn packed_block<A>(
        n: Numbers,
        grads: &[f32],
        params: &mut [f32],
        first: &mut [f32],
        second: &mut [f32],
    ) {
        let (mut means, mut squares) = ([0.0; BLOCK_ELEMENTS], [0.0; BLOCK_ELEMENTS]);
        let (means, squares) = (&mut means[..grads.len()], &mut squares[..grads.len()]);
        unpack_block::<A>(first, true, means);
        unpack_block::<A>(second, false, squares);
        for (((&g, p), m), v) in grads.iter().zip(params).zip(&mut *means).zip(&mut *squares) {
            let g = clipped::<A>(&n, g);
            let kept = A::mul(n.keep, *p);
            *m = A::fma(n.one_minus_beta1, sub(g, *m), *m);
            *v = A::fma(A::mul(n.one_minus_beta2, g), g, A::mul(n.beta2, *v));
            let denominator = A::fma(sqrt(*v), n.inverse_root, n.epsilon);
            *p = A::fma(n.negative_step, div(*m, denominator), kept);
        }
        pack_block(means, true, first);
        pack_block(squares, false, second);
    }

    /// Decodes whole blocks of one moment.
    fn unpack_all<A>(words: &[f32], is_first: bool, values: &mut [f32]) {
        let words = words.chunks(1 + BLOCK_ELEMENTS / 4);
        for (words, values) in words.zip(values.chunks_mut(BLOCK_ELEMENTS)) {
            unpack_block::<A>(words, is_first, values);
        }
    }
}

/// Decodes the first or the second moment of a parameter of [`LEAST_PACKED`] elements or more: `values` are its elements,
/// `words` its state.
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for words that are not those of the elements.
pub fn unpack(words: &[f32], is_first: bool, values: &mut [f32]) -> Result<()> {
    let expected = state_words(values.len(), true);
    check_that!("unpack", words.len() == expected =>
        "the state has {found} words, expected {expected}", found = words.len())?;
    unpack_all(words, is_first, values);
    Ok(())
}

/// Encodes the first or the second moment of a parameter: the words that [`unpack`] decodes.
pub fn pack(values: &[f32], is_first: bool) -> Vec<f32> {
    let mut words = vec![0.0; state_words(values.len(), true)];
    let blocks = words.chunks_mut(1 + BLOCK_ELEMENTS / 4);
    for (values, words) in values.chunks(BLOCK_ELEMENTS).zip(blocks) {
        pack_block(values, is_first, words);
    }
    words
}

#[inline(always)]
fn unpack_block<A: FloatOps>(words: &[f32], is_first: bool, values: &mut [f32]) {
    let scale = words[0];
    for (values, word) in values.chunks_mut(4).zip(&words[1..]) {
        for (value, byte) in values.iter_mut().zip(word.to_bits().to_le_bytes()) {
            let byte = u32::from(byte);
            *value = if is_first {
                let magnitude = A::mul(scale, value_of(byte & 127, FINE[0]));
                if byte & 128 == 0 {
                    magnitude
                } else {
                    -magnitude
                }
            } else {
                A::mul(scale, value_of(byte - u32::from(byte > 127), FINE[1]))
            };
        }
    }
}

#[inline(always)]
fn pack_block(values: &[f32], is_first: bool, words: &mut [f32]) {
    let largest = values.iter().map(|x| x.to_bits() & 0x7fff_ffff);
    let largest = largest.fold(0, u32::max);
    let scale = match largest {
        INFINITY.. => NAN,
        SMALLEST_SCALE.. => largest,
        _ => 0,
    };
    words[0] = f32::from_bits(scale);
    if scale == 0 || scale == NAN {
        words[1..].fill(0.0);
        return;
    }
    let scale = f32::from_bits(scale);
    for (word, values) in words[1..].iter_mut().zip(values.chunks(4)) {
        let mut bytes = [0; 4];
        for (byte, &value) in bytes.iter_mut().zip(values) {
            *byte = byte_of(value, scale, is_first) as u8;
        }
        *word = f32::from_bits(u32::from_le_bytes(bytes));
    }
}

#[inline(always)]
fn byte_of(value: f32, scale: f32, is_first: bool) -> u32 {
    let code = code_of(div(value.abs(), scale), FINE[usize::from(!is_first)]);
    if is_first {
        let is_negative = value.to_bits() >> 31 != 0;
        return if code != 0 && is_negative {
            code | 128
        } else {
            code
        };
    }
    let code = code.max(u32::from(value > 0.0));
    code + u32::from(code > 126)
}

/// The number of a code, c - 3.
#[inline(always)]
fn value_of(code: u32, fine: u32) -> f32 {
    let c = code + 3;
    let m = 29 - c.max(4).leading_zeros();
    let exponent = (c >> m) + 119 + 4 * m - 4 * fine;
    let bits = exponent << 23 | (c & ((1 << m) - 1)) << (23 - m);
    if code == 0 { 0.0 } else { f32::from_bits(bits) }
}

/// The code of the nearest number to r, which is at most 1; 0 below the least.
#[inline(always)]
fn code_of(r: f32, fine: u32) -> u32 {
    let bits = r.to_bits();
    let (exponent, least) = (bits >> 23, 123 - 4 * fine);
    if exponent >= 127 {
        return (8 << fine) - 3;
    }
    if exponent < least {
        return u32::from(exponent == least - 1);
    }
    let level = (126 - exponent) >> 2;
    let m = fine - level;
    let rounded = (bits + (1 << (22 - m))) >> (23 - m);
    rounded - ((119 - 4 * level) << m) - 3
}

#[cfg(test)]
mod tests;
