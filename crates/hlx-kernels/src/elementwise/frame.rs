//! The launcher of kernels over typed, strided operands: `shaders/include/elements.glsl`, and on the
//! CPU pieces that are gathered into words of the compute type, computed and stored.
//!
//! Every element is computed on its own, so windows, pieces and threads change no bit.

use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{ALIGNMENT_WORDS, Binding, Buffer, DType, Device, Shader};

use super::moves::Move;
use super::strided::joint;
use crate::Result;
use crate::chain::{Cut, Formula, StageLaunch, StageOperand};
use crate::convert::{Form, Places, convert_shader, store};
use crate::kernel::Kernel;
use crate::layout::{Layout, Operand, Walk, in_quads, is_row_major};
use crate::map::{CHUNK, windows};
use crate::parallel::{self, write};
use crate::tuning::KernelTuning;

/// Elements of a task of the CPU device where operands are gathered: 16 KiB each.
const PIECE: usize = 1 << 12;

/// A kernel over the frame, with its operands.
pub(super) struct Elements<'a, const N: usize> {
    /// The operation's name in errors and timing reports.
    pub name: &'static str,
    /// A shader over `elements.glsl`.
    pub shader: &'static Shader,
    /// The type that it computes in.
    pub compute: DType,
    /// The push constants that are the operation's own.
    pub parameters: [u32; 2],
    /// The operands with their names for errors.
    pub operands: [(&'static str, Operand<'a>); N],
    /// How they are loaded.
    pub forms: [Form; N],
    /// How results are stored.
    pub out_form: Form,
}

/// What the CPU twin of one launch works on.
struct Task<const N: usize> {
    axes: Walk<N>,
    /// Whether an operand's elements lie one behind the other.
    dense: [bool; N],
    forms: [Form; N],
    out_form: Form,
    compute: DType,
}

impl<const N: usize> Elements<'_, N> {
    /// Launches the kernel; `chunk` computes words of the compute type of as many on the CPU.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for shapes that do not broadcast and operands
    /// that are too large, [`KernelError::Length`](crate::KernelError::Length) for an output of another length,
    /// or the device's error.
    pub fn launch(
        &self,
        device: &Device,
        out: &Buffer,
        chunk: impl Fn([&[u32]; N], &mut [u32]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let layouts = joint(self.name, self.operands, out)?;
        if out.is_empty() {
            return Ok(());
        }
        let axes = Walk::along(layouts.each_ref());
        let count = axes.count();
        let copies = count >= KernelTuning::of(device).maps.copy_transposed_from;
        if let Some(k) = (0..N).find(|&k| copies && axes.transposed(k).is_some()) {
            return self.with_copy(device, k, out, chunk);
        }
        if axes.shape.len() > 1 {
            return self.window(device, axes, out, chunk);
        }
        let (per_word, words) = (self.forms.map(Form::per_word), device.max_binding_words());
        let limit = match device.is_cpu() {
            true => count,
            false => axes.most_elements(per_word, self.out_form.per_word(), words),
        };
        for (start, count) in windows(count, 4 * ALIGNMENT_WORDS, limit) {
            let window = out.slice(start, count)?;
            self.window(device, axes.cut(start, count), &window, chunk)?;
        }
        Ok(())
    }

    /// With a contiguous copy of operand `k`, whose neighbours would be read from as many cache lines.
    fn with_copy(
        &self,
        device: &Device,
        k: usize,
        out: &Buffer,
        chunk: impl Fn([&[u32]; N], &mut [u32]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let (name, operand) = self.operands[k];
        let copy = device.alloc_typed(operand.buffer.dtype(), operand.layout.n_elements())?;
        copy_bits(device, operand, &copy)?;
        let layout = Layout::contiguous(operand.layout.shape())?;
        let mut operands = self.operands;
        operands[k] = (name, Operand::new(&copy, &layout));
        let kernel = Elements { operands, ..*self };
        kernel.launch(device, out, chunk)
    }

    /// One launch, over operands that can be bound.
    fn window(
        &self,
        device: &Device,
        mut axes: Walk<N>,
        out: &Buffer,
        chunk: impl Fn([&[u32]; N], &mut [u32]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let mut buffers = Vec::with_capacity(N);
        for (k, (argument, operand)) in self.operands.iter().enumerate() {
            buffers.push(axes.window(device, self.name, argument, k, operand.buffer)?);
        }
        let cut = Cut::of(device, out.len());
        let dimensions = if N == 3 { 7 } else { 8 };
        let mut push = vec![out.len() as u32];
        if N < 3 {
            push.extend(self.parameters);
        }
        push.extend(axes.push(dimensions));
        let constants = self.specialization(&axes, cut);
        let task = Arc::new(Task {
            dense: std::array::from_fn(|k| is_row_major(&axes.shape, &axes.strides[k])),
            axes,
            forms: self.forms,
            out_form: self.out_form,
            compute: self.compute,
        });
        let (len, own) = (out.len(), Arc::clone(&task));
        let stage = || self.stage_launch(&task.axes, cut, chunk).fusable(device);
        let groups = cut.groups(len);
        let kernel = Kernel::new(self.name, self.shader)
            .constants(&constants)
            .bind_all(buffers.iter().map(Binding::Read))
            .writes([out]);
        kernel.launch_fusable(device, push, groups, stage, move |bindings| {
            let (inputs, [out]) = bindings.split::<N, 1>();
            let inputs = inputs.map(cast_slice::<f32, u32>);
            own.run(inputs, cast_slice_mut(out), len, chunk);
        })
    }

    /// The launch as part of a chain.
    fn stage_launch(
        &self,
        axes: &Walk<N>,
        cut: Cut,
        chunk: impl Fn([&[u32]; N], &mut [u32]) + Send + Sync + 'static,
    ) -> StageLaunch {
        let operand = |k: usize| StageOperand {
            form: self.forms[k],
            strides: axes.strides[k].clone(),
            offset: axes.offsets[k],
        };
        StageLaunch {
            formula: Formula {
                shader: self.shader,
                constants: Vec::new(),
            },
            compute: self.compute,
            shape: axes.shape.clone(),
            operands: (0..N).map(operand).collect(),
            out_form: self.out_form,
            parameters: self.parameters.to_vec(),
            chunk: Arc::new(move |inputs, out| chunk(std::array::from_fn(|k| inputs[k]), out)),
            cut,
        }
    }

    fn specialization(&self, axes: &Walk<N>, cut: Cut) -> Vec<(u32, u32)> {
        let mut constants = vec![
            (990, axes.shape.len() as u32),
            (991, u32::from(in_quads(&axes.shape))),
            (992, self.compute.id()),
            (980, self.out_form.id()),
        ];
        for (k, form) in (0..).zip(self.forms) {
            constants.push((981 + k, form.id()));
            constants.push((985 + k, axes.access(k as usize) as u32));
        }
        constants.extend(cut.constants());
        constants
    }
}

/// Writes the elements of `x` in row-major order to `out`, which has their type.
///
/// # Errors
/// As [`Elements::launch`].
pub(super) fn copy_bits(device: &Device, x: Operand<'_>, out: &Buffer) -> Result<()> {
    const NAME: &str = "copy_strided";
    let layout = Layout::contiguous(x.layout.shape())?;
    let moved = Move::new(NAME, x, Operand::new(out, &layout))?;
    // The CPU writes elements of any size.
    if moved.in_words() || device.is_cpu() {
        return moved.launch(device, true);
    }
    let form = Form::raw(out.dtype());
    copy_elements(device, x, out, DType::U32, [form, form])
}

/// Copies through the frame, each element on its own, as values of `compute` in these forms.
///
/// # Errors
/// As [`Elements::launch`].
pub(super) fn copy_elements(
    device: &Device,
    x: Operand<'_>,
    out: &Buffer,
    compute: DType,
    [form, out_form]: [Form; 2],
) -> Result<()> {
    let kernel = Elements {
        name: "copy_strided",
        shader: &convert_shader::SHADER,
        compute,
        parameters: [0; 2],
        operands: [("x", x)],
        forms: [form],
        out_form,
    };
    kernel.launch(device, out, |[x], out| out.copy_from_slice(x))
}

impl<const N: usize> Task<N> {
    fn run(
        &self,
        inputs: [&[u32]; N],
        out: &mut [u32],
        count: usize,
        chunk: impl Fn([&[u32]; N], &mut [u32]) + Sync,
    ) {
        let direct: [bool; N] =
            std::array::from_fn(|k| self.dense[k] && self.forms[k].is_word_of(self.compute));
        let stored = self.out_form.is_word_of(self.compute);
        let gathers = direct.iter().filter(|direct| !**direct).count() + usize::from(!stored);
        let piece = if gathers == 0 { CHUNK } else { PIECE };
        let pieces = write(out, piece / self.out_form.per_word());
        parallel::for_each(pieces, |index, out| {
            let start = index * piece;
            let n = piece.min(count - start);
            parallel::scratch(gathers * PIECE, |words: &mut [u32]| {
                let mut slots = words.chunks_mut(PIECE);
                let arguments: [&[u32]; N] = std::array::from_fn(|k| {
                    if direct[k] {
                        return &inputs[k][self.axes.offsets[k] + start..][..n];
                    }
                    let slot = &mut slots.next().unwrap_or_default()[..n];
                    self.load(k, inputs[k], start, slot);
                    slot
                });
                if stored {
                    return chunk(arguments, out);
                }
                let result = &mut slots.next().unwrap_or_default()[..n];
                chunk(arguments, result);
                store(self.out_form, self.compute, result, out);
            });
        });
    }

    /// Reads elements of operand `k` as words of the compute type.
    fn load(&self, k: usize, words: &[u32], start: usize, slot: &mut [u32]) {
        let places = Places {
            shape: &self.axes.shape,
            strides: &self.axes.strides[k],
            offset: self.axes.offsets[k],
            start,
        };
        places.load(self.forms[k], self.compute, words, slot);
    }
}
