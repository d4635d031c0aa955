//! Plain causal attention over a packed `[B, T, 3, H, D]` on a GPU, with or without dropped weights, for heads of at most
//! 64 columns: kernels of its own with the bits of those over ranges.
//!
//! Backward, one kernel writes delta, a second dK, dV and ds, a third dQ from it, over as many heads at a time as ds has
//! memory for. Dropped weights are dropped in ds already.

use hlx_core::{Buffer, Device};

use super::operands::AttentionOutput;
use super::pass;
use super::plan::{PackedKernels, packed_kernels, words_of_head};
use super::shaders::{
    STORED_QUERY, Variant, backward_query_stored, forward_64, forward_dropped, key_value_dropped,
};
use super::sizes::{Attention, WeightDropout};
use crate::error::check_len;
use crate::kernel::Kernel;
use crate::{KernelError, Result};

/// An attention over a packed operand.
#[derive(Clone, Copy)]
pub struct Packed<'a> {
    pub device: &'a Device,
    pub qkv: &'a Buffer,
    /// Where weights are dropped.
    pub counter: Option<&'a Buffer>,
    pub attention: Attention,
}

impl Packed<'_> {
    /// Computes `o` and `stats`; overwrites both.
    pub fn forward(&self, [o, stats]: [&Buffer; 2]) -> Result<()> {
        let kernels = self.kernels("attention_forward")?;
        self.forward_by(kernels.forward, [o, stats])
    }

    /// Checks the operand; returns the kernels that take it.
    fn kernels(&self, name: &'static str) -> Result<PackedKernels> {
        let of = &self.attention;
        of.check(name)?;
        let kernels = packed_kernels(self.device, of).ok_or_else(|| {
            KernelError::argument(name)(format!("no kernel of this device takes {of:?}, packed"))
        })?;
        of.check_counter(name, self.counter)?;
        check_len(name, "qkv", self.qkv, [3, of.output_len()])?;
        check_that!(name, u32::try_from(self.qkv.len()).is_ok() =>
            "qkv of {of:?} has more than 2^32 - 1 elements")?;
        Ok(kernels)
    }

    pub(super) fn forward_by(&self, variant: &Variant, [o, stats]: [&Buffer; 2]) -> Result<()> {
        let of = self.attention;
        let (heads, constants) = (of.all_heads(), self.constants());
        let groups = variant.groups(&of, heads);
        let kernel = Kernel::new("attention_forward", variant.shader)
            .constants(constants)
            .reads([self.qkv])
            .write("o", o, of.output_len())?
            .write("stats", stats, [2, of.all_queries()])?
            .flops(of.flops(2));
        if let (Some(dropout), Some(counter)) = (of.dropout, self.counter) {
            let WeightDropout { p, seed, purpose } = dropout;
            let push = push!(forward_dropped =>
                heads, heads_a_sequence: of.heads, time: of.queries, scale: of.scale,
                seed_low: seed as u32, seed_high: (seed >> 32) as u32, purpose, p,
                factor: dropout.factor()
            );
            let kernel = kernel.reads([counter]);
            return kernel.launch_on_gpu(self.device, push, groups);
        }
        let push = push!(forward_64 =>
            heads, heads_a_sequence: of.heads, time: of.queries, scale: of.scale
        );
        kernel.launch_on_gpu(self.device, push, groups)
    }

    /// Computes `dqkv`; overwrites it and `delta`.
    pub fn backward(
        &self,
        output: &AttentionOutput<'_>,
        delta: &Buffer,
        dqkv: &Buffer,
    ) -> Result<()> {
        const NAME: &str = "attention_backward";
        let of = &self.attention;
        let kernels = self.kernels(NAME)?;
        check_len(NAME, "dqkv", dqkv, self.qkv.len())?;
        pass::check_output(NAME, of, output, delta)?;
        let PackedKernels {
            key_value,
            heads_at_a_time,
            ..
        } = kernels;
        self.backward_by(key_value, heads_at_a_time, output, delta, dqkv)
    }

    /// Keeps ds of some heads at a time.
    pub(super) fn backward_by(
        &self,
        key_value: &Variant,
        heads_at_a_time: usize,
        output: &AttentionOutput<'_>,
        delta: &Buffer,
        dqkv: &Buffer,
    ) -> Result<()> {
        let (device, of, constants) = (self.device, &self.attention, self.constants());
        pass::delta(device, "attention_backward_delta", of, output, delta)?;
        let ds = device.alloc_shape(&[heads_at_a_time, words_of_head(of)])?;
        for first in (0..of.all_heads()).step_by(heads_at_a_time) {
            let heads = heads_at_a_time.min(of.all_heads() - first);
            let push = push!(backward_query_stored =>
                heads, heads_a_sequence: of.heads, time: of.queries, scale: of.scale, first_head: first
            );
            let kernel = Kernel::new("attention_backward_key_value", key_value.shader)
                .constants(constants)
                .reads([self.qkv, output.stats, output.d_o, delta])
                // Two thirds of it are written here, the rest by the next launch.
                .updates([dqkv])
                .writes([&ds])
                .flops(of.flops_of_heads(heads, 4));
            let groups = key_value.groups(of, heads);
            match (of.dropout, self.counter) {
                (Some(dropout), Some(counter)) => {
                    let WeightDropout { p, seed, purpose } = dropout;
                    let push = push!(key_value_dropped =>
                        heads, heads_a_sequence: of.heads, time: of.queries, scale: of.scale,
                        first_head: first, seed_low: seed as u32, seed_high: (seed >> 32) as u32,
                        purpose, p, factor: dropout.factor()
                    );
                    kernel
                        .reads([counter])
                        .launch_on_gpu(device, push, groups)?;
                }
                _ => kernel.launch_on_gpu(device, push, groups)?,
            }
            Kernel::new("attention_backward_query", STORED_QUERY.shader)
                .constants(constants)
                .reads([self.qkv, &ds])
                .updates([dqkv])
                .flops(of.flops_of_heads(heads, 1))
                .launch_on_gpu(device, push, STORED_QUERY.groups(of, heads))?;
        }
        Ok(())
    }

    /// The specialization constants: `D`, and whether rows are whole vectors of four.
    fn constants(&self) -> [(u32, u32); 2] {
        let width = self.attention.head_width;
        constants!(0: width, width.is_multiple_of(4))
    }
}
