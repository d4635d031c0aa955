//! The frame of an optimizer's step: one launch over flat buffers, each block of 64 elements with
//! the numbers of its group.

use hlx_core::{Binding, Buffer, Device, Shader, as_u32};

use super::hyper::{HYPER_LEN, Numbers};
use crate::error::Result;
use crate::map::{Arg, BLOCK, CHUNK, Map};
use crate::parallel::{self, write};

/// In the table of [`Groups::ByBlock`]: a block that the step leaves as it is, state included.
pub const SKIPPED: u32 = u32::MAX;

/// The constant of `hyper.glsl` that says that blocks have rows of their own.
const GROUPED_ID: u32 = 1;

/// Which row of numbers an element has.
#[derive(Clone, Copy, Debug)]
pub enum Groups<'a> {
    /// All elements this row.
    One(u32),
    /// Each block of 64 elements its own: a `u32` word per block, the row's number or [`SKIPPED`].
    /// A number past the last row stands for the last.
    ByBlock(&'a Buffer),
}

/// What every step takes besides its state.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The parameters, updated in place.
    pub params: &'a Buffer,
    /// Their gradients.
    pub grads: &'a Buffer,
    /// HyperRows of [`Hyper::to_words`](super::Hyper::to_words).
    pub hyper: &'a Buffer,
    /// One factor that multiplies the gradients; a negative one skips the step.
    pub clip: &'a Buffer,
    /// The row of each element.
    pub groups: Groups<'a>,
}

impl<'a> Update<'a> {
    /// An update of all parameters by the numbers of the first row.
    pub fn new(params: &'a Buffer, grads: &'a Buffer, hyper: &'a Buffer, clip: &'a Buffer) -> Self {
        Self {
            params,
            grads,
            hyper,
            clip,
            groups: Groups::One(0),
        }
    }
}

/// A step's name and shader.
#[derive(Clone, Copy)]
pub(super) struct UpdateKernel {
    name: &'static str,
    shader: &'static Shader,
    variant: Option<u32>,
}

impl UpdateKernel {
    pub fn new(name: &'static str, shader: &'static Shader) -> Self {
        Self {
            name,
            shader,
            variant: None,
        }
    }

    /// Sets the shader's constant 0.
    pub fn variant(self, chosen: bool) -> Self {
        let variant = Some(u32::from(chosen));
        Self { variant, ..self }
    }

    /// Launches the step; `written` are the parameters and the state's buffers, and `chunk` computes
    /// elements of one group on the CPU.
    ///
    /// # Errors
    /// A shape error if the lengths differ or the numbers are no whole rows, or the device's error.
    pub fn launch<const W: usize>(
        &self,
        device: &Device,
        update: &Update<'_>,
        written: [(&'static str, &Buffer); W],
        chunk: impl Fn(Numbers, &[f32], [&mut [f32]; W]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        let hyper_len = update.hyper.len();
        let n_rows = (hyper_len / HYPER_LEN) as u32;
        let (row, table) = match update.groups {
            Groups::One(row) => (row, None),
            Groups::ByBlock(table) => (0, Some(table)),
        };
        check_that!(self.name, hyper_len.is_multiple_of(HYPER_LEN) && row < n_rows =>
            "hyper has {hyper_len} words, expected rows of {HYPER_LEN} up to row {row}")?;
        let mut constants: Vec<(u32, u32)> =
            self.variant.map(|word| (0, word)).into_iter().collect();
        if table.is_some() {
            constants.push((GROUPED_ID, 1));
        }
        let map = Map {
            name: self.name,
            shader: self.shader,
            specialization: &constants,
            pairs: false,
            parameters: &[row, n_rows],
        };
        let mut args = vec![
            Arg::Each("grads", Binding::Read(update.grads)),
            Arg::Whole("hyper", update.hyper, hyper_len),
            Arg::Whole("clip", update.clip, 1),
            Arg::Blocks("groups", table),
        ];
        for (name, buffer) in written {
            args.push(Arg::Each(name, Binding::ReadWrite(buffer)));
        }
        let grouped = table.is_some();
        map.launch(device, &args, move |bindings| {
            let ([grads, hyper, clip, table], written) = bindings.split::<4, W>();
            if clip[0] < 0.0 {
                return;
            }
            let rows = HyperRows {
                hyper,
                clip,
                table: grouped.then(|| as_u32(table)),
                row,
                n_rows,
            };
            let pieces = written.map(|words| write(words, CHUNK));
            parallel::for_each(pieces, |piece, written| {
                let begin = piece * CHUNK;
                rows.each_run(&grads[begin..], begin, written, chunk);
            });
        })
    }
}

/// The rows of a launch on the CPU.
struct HyperRows<'a> {
    hyper: &'a [f32],
    clip: &'a [f32],
    table: Option<&'a [u32]>,
    row: u32,
    n_rows: u32,
}

impl HyperRows<'_> {
    /// Calls `chunk` for each run of blocks of one row, in a piece that begins at element `begin`.
    fn each_run<const W: usize>(
        &self,
        grads: &[f32],
        begin: usize,
        mut written: [&mut [f32]; W],
        chunk: impl Fn(Numbers, &[f32], [&mut [f32]; W]),
    ) {
        let len = written[0].len();
        let row_at = |at: usize| match self.table {
            Some(table) => table[(begin + at) / BLOCK],
            None => self.row,
        };
        let mut start = 0;
        while start < len {
            let row = row_at(start);
            let mut end = (start + BLOCK).min(len);
            while end < len && (self.table.is_none() || row_at(end) == row) {
                end = (end + BLOCK).min(len);
            }
            if row != SKIPPED {
                let at = HYPER_LEN * row.min(self.n_rows - 1) as usize;
                let numbers = Numbers::new(&self.hyper[at..at + HYPER_LEN], self.clip);
                let run = written.each_mut().map(|words| &mut words[start..end]);
                chunk(numbers, &grads[start..end], run);
            }
            start = end;
        }
    }
}
