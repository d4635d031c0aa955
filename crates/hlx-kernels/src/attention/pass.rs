//! What the launches of a pass share, and delta.

use hlx_core::{Buffer, Device};

use super::cpu;
use super::operands::{AttentionOperands, AttentionOutput};
use super::shaders::{DELTA, backward_delta};
use super::sizes::{Attention, Placed};
use crate::Result;
use crate::error::check_len;
use crate::kernel::Kernel;

/// What the launches of a pass over ranges read.
#[derive(Clone, Copy)]
pub struct RangedPass<'a> {
    pub device: &'a Device,
    pub operands: &'a AttentionOperands<'a>,
    /// What [`query_ranges`](super::query_ranges) wrote.
    pub ranges: &'a Buffer,
    pub placed: Placed,
}

/// What those of a backward pass read besides, and their scratch.
#[derive(Clone, Copy)]
pub struct Saved<'a> {
    pub output: &'a AttentionOutput<'a>,
    /// What [`key_ranges`](super::key_ranges) wrote.
    pub key_ranges: &'a Buffer,
    pub delta: &'a Buffer,
}

/// Checks what a backward pass reads besides the operands.
pub fn check_output(
    name: &'static str,
    of: &Attention,
    output: &AttentionOutput<'_>,
    delta: &Buffer,
) -> Result<()> {
    check_len(name, "o", output.o, of.output_len())?;
    check_len(name, "stats", output.stats, [2, of.all_queries()])?;
    check_len(name, "d_o", output.d_o, of.output_len())?;
    check_len(name, "delta", delta, of.all_queries())
}

/// Writes `delta`.
pub fn delta(
    device: &Device,
    name: &'static str,
    of: &Attention,
    output: &AttentionOutput<'_>,
    delta: &Buffer,
) -> Result<()> {
    let ((shader, rows), of, all) = (DELTA, *of, of.all_queries());
    let push = push!(backward_delta => rows: all, heads_a_sequence: of.heads, time: of.queries);
    let kernel = Kernel::new(name, shader)
        .constants([(0, of.head_width as u32)])
        .reads([output.o, output.d_o])
        .writes([delta]);
    let groups = all.div_ceil(rows);
    kernel.launch(device, push, groups, move |[o, d_o], [delta]| {
        cpu::delta(o, d_o, delta, &of);
    })
}

impl<'a> RangedPass<'a> {
    /// Checks the operands; `name` is that of errors.
    pub fn new(
        name: &'static str,
        device: &'a Device,
        operands: &'a AttentionOperands<'a>,
        ranges: &'a Buffer,
        of: &Attention,
    ) -> Result<Self> {
        let placed = of.placed(name, ["q", "k", "v"], operands.heads)?;
        check_len(name, "query_ranges", ranges, [4, of.batch, of.queries])?;
        of.check_counter(name, operands.counter)?;
        Ok(Self {
            device,
            operands,
            ranges,
            placed,
        })
    }

    pub fn words(&self) -> [&'a Buffer; 3] {
        self.operands.heads.map(|x| x.buffer)
    }

    /// Checks what a backward pass reads besides the operands, and writes delta.
    pub fn begin_backward(&self, name: &'static str, saved: &Saved<'_>) -> Result<()> {
        let of = &self.placed.attention;
        check_output(name, of, saved.output, saved.delta)?;
        check_len(name, "key_ranges", saved.key_ranges, [4, of.batch, of.keys])?;
        let name = "ranged_attention_delta";
        delta(self.device, name, of, saved.output, saved.delta)
    }
}
