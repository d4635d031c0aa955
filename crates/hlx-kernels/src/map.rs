//! The launcher of kernels whose elements are independent: `y[i] = f(x[i], ...)`.
//!
//! [`Map::each`] is the frame of such an operation: it checks the lengths, cuts tensors larger than
//! the device can bind into windows, runs a shader of whole vectors per thread
//! (`shaders/include/map.glsl`), and spreads the CPU twin over the worker threads. [`Map::launch`]
//! takes other arguments too. Both sides compute each element on its own, so
//! windows, chunks and threads change no bit.

use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{ALIGNMENT_WORDS, Binding, Buffer, CpuBindings, Device, Shader};

use crate::chain::{Chunk, Cut, Formula, StageLaunch};
use crate::error::{Result, check_len};
use crate::kernel::Kernel;
use crate::parallel::{self, read, write};

/// Elements of one task of the CPU device: 64 KiB an operand, which stays in a core's cache.
pub(crate) const CHUNK: usize = 1 << 14;

/// Elements that share a word of [`Arg::Blocks`]: parameters begin at multiples of it.
pub(crate) const BLOCK: usize = ALIGNMENT_WORDS;

/// Workgroups in one direction of a launch that every device takes.
pub(crate) const MAX_GROUPS: usize = 65_535;

/// Operands of [`Map::each`].
const MOST_OPERANDS: usize = 2;
pub(crate) const GROUP_THREADS: usize = 256;

/// An argument of a map, with its name for errors.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A tensor of which each index has its own element.
    Each(&'static str, Binding<'a>),
    /// A short read-only buffer of the given length that every index reads whole.
    Whole(&'static str, &'a Buffer, usize),
    /// A read-only buffer of one word for each [`BLOCK`] of elements, if it is given.
    Blocks(&'static str, Option<&'a Buffer>),
}

/// An element-by-element kernel, without its operands.
pub(crate) struct Map<'a> {
    /// The operation's name in errors and timing reports.
    pub name: &'static str,
    /// A shader whose push constants are `uint count`, then [`Map::parameters`].
    pub shader: &'static Shader,
    /// The shader's own specialization constants.
    pub specialization: &'a [(u32, u32)],
    /// Whether the shader is one over `map.glsl`, whose threads may have two vectors instead of one.
    pub pairs: bool,
    /// The push constants after the count (one word for the shaders over `map.glsl`).
    pub parameters: &'a [u32],
}

impl<'a> Map<'a> {
    /// A kernel over `map.glsl` without parameters of its own.
    pub fn new(name: &'static str, shader: &'static Shader) -> Self {
        Self {
            name,
            shader,
            specialization: &[],
            pairs: true,
            parameters: &[0],
        }
    }

    /// Launches `y[i] = f(a[i], b[i], ..)` over named operands; `chunk` computes a stretch of it on the CPU.
    ///
    /// # Errors
    /// As [`Map::launch`].
    pub fn each<const N: usize>(
        &self,
        device: &Device,
        operands: [(&'static str, &Buffer); N],
        y: (&'static str, &Buffer),
        chunk: impl Fn([&[f32]; N], &mut [f32]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let mut args = [Arg::Each(y.0, Binding::Write(y.1)); MOST_OPERANDS + 1];
        for (arg, (name, x)) in args.iter_mut().zip(operands) {
            *arg = Arg::Each(name, Binding::Read(x));
        }
        let words: Chunk = Arc::new(move |inputs: &[&[u32]], out: &mut [u32]| {
            let inputs = std::array::from_fn(|k| cast_slice(inputs[k]));
            chunk(inputs, cast_slice_mut(out));
        });
        self.launch_step(device, &args[..=N], Some((N, words)), move |bindings| {
            let (inputs, [y]) = bindings.split::<N, 1>();
            chunks(inputs, y, chunk);
        })
    }

    /// Launches the kernel over `args`, in binding order; `body` computes one window on the CPU.
    ///
    /// # Errors
    /// A shape error if the tensors differ in length, or the device's error.
    pub fn launch(
        &self,
        device: &Device,
        args: &[Arg<'_>],
        body: impl Fn(&mut CpuBindings<'_>) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        self.launch_step(device, args, None, body)
    }

    /// As [`Map::launch`]; with the formula of this many operands over words, the launch may become
    /// part of a chain.
    fn launch_step(
        &self,
        device: &Device,
        args: &[Arg<'_>],
        words: Option<(usize, Chunk)>,
        body: impl Fn(&mut CpuBindings<'_>) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let len = self.common_len(args)?;
        let is_by_block = |arg: &Arg<'_>| matches!(arg, Arg::Blocks(_, Some(_)));
        // A window of blocks' words begins where a binding may.
        let unit = match args.iter().any(is_by_block) {
            true => BLOCK * ALIGNMENT_WORDS,
            false => ALIGNMENT_WORDS,
        };
        for (start, count) in windows(len, unit, device.max_binding_words()) {
            let buffers = args
                .iter()
                .map(|arg| match arg {
                    Arg::Each(_, binding) => binding.buffer().slice(start, count).map(Some),
                    Arg::Whole(_, buffer, _) => Ok(Some((*buffer).clone())),
                    Arg::Blocks(_, buffer) => buffer
                        .map(|words| words.slice(start / BLOCK, count.div_ceil(BLOCK)))
                        .transpose(),
                })
                .collect::<Result<Vec<_>, _>>()?;
            let mut cut = Cut::of(device, count);
            if !self.pairs {
                cut.vectors = 1;
            }
            let mut specialization = self.specialization.to_vec();
            specialization.extend(cut.constants());
            let mut push = vec![count as u32];
            push.extend_from_slice(self.parameters);
            let stage = || {
                let formula = Formula {
                    shader: self.shader,
                    constants: self.specialization.to_vec(),
                };
                let words = words.clone().filter(|_| self.pairs)?;
                StageLaunch::dense_f32(device, formula, count, self.parameters, words.0, words.1)
                    .fusable(device)
            };
            let mut kernel = Kernel::new(self.name, self.shader).constants(&specialization);
            for (arg, buffer) in args.iter().zip(&buffers) {
                kernel = match (arg, buffer) {
                    // What a map replaces would have to be its first argument.
                    (
                        Arg::Each(_, Binding::Write(_) | Binding::Replace(_) | Binding::Rewrite(_)),
                        Some(buffer),
                    ) => kernel.writes([buffer]),
                    (Arg::Each(_, Binding::ReadWrite(_)), Some(buffer)) => kernel.updates([buffer]),
                    (_, buffer) => kernel.reads_if(buffer.as_ref()),
                };
            }
            kernel.launch_fusable(device, push, cut.groups(count), stage, body)?;
        }
        Ok(())
    }

    /// Checks that all tensors have the length of the first, and the others the one they name.
    fn common_len(&self, args: &[Arg<'_>]) -> Result<usize> {
        let mut len = None;
        for arg in args {
            match arg {
                Arg::Each(name, binding) => {
                    let expected = *len.get_or_insert(binding.buffer().len());
                    check_len(self.name, name, binding.buffer(), expected)?;
                }
                Arg::Whole(name, buffer, expected) => {
                    check_len(self.name, name, *buffer, *expected)?;
                }
                Arg::Blocks(..) => {}
            }
        }
        let len = len.unwrap_or(0);
        for arg in args {
            if let Arg::Blocks(name, buffer) = arg {
                check_len(self.name, name, *buffer, len.div_ceil(BLOCK))?;
            }
        }
        Ok(len)
    }
}

/// Cuts `len` elements into windows (start, count) of at most `limit`, each but the last a multiple
/// of `unit`.
pub(crate) fn windows(
    len: usize,
    unit: usize,
    limit: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let window = (limit / unit).max(1) * unit;
    (0..len)
        .step_by(window)
        .map(move |start| (start, window.min(len - start)))
}

/// Runs `body` over chunks of one input and one output, on all worker threads.
pub(crate) fn chunks1(x: &[f32], y: &mut [f32], body: impl Fn(&[f32], &mut [f32]) + Sync) {
    let pieces = (read(x, CHUNK), write(y, CHUNK));
    parallel::for_each(pieces, |_, (x, y)| body(x, y));
}

/// Runs `body` over chunks of the inputs and one output, on all worker threads.
pub(crate) fn chunks<const N: usize>(
    inputs: [&[f32]; N],
    y: &mut [f32],
    body: impl Fn([&[f32]; N], &mut [f32]) + Sync,
) {
    let pieces = (inputs.map(|x| read(x, CHUNK)), write(y, CHUNK));
    parallel::for_each(pieces, |_, (inputs, y)| body(inputs, y));
}

/// `y[i] = f(x[i])`, for the bodies of `multiversion!` functions.
#[inline(always)]
pub(crate) fn each1(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = f(*x);
    }
}

/// `y[i] = f(a[i], b[i])`, for the bodies of `multiversion!` functions.
#[inline(always)]
pub(crate) fn each2(a: &[f32], b: &[f32], y: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
        *y = f(*a, *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_element_once_from_aligned_starts() {
        for (len, limit) in [
            (0, 100),
            (1, 100),
            (640, 64),
            (1000, 200),
            (1000, 1 << 30),
            (7, 3),
        ] {
            let mut end = 0;
            for (start, count) in windows(len, 64, limit) {
                assert_eq!((start, start % 64), (end, 0));
                assert!(count > 0 && count <= limit.max(64));
                end = start + count;
            }
            assert_eq!(end, len);
        }
    }
}
