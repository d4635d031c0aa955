//! The kernels of rows of queries over ranges, of floats.

use hlx_core::Buffer;

use super::cpu::{self, Inputs, Operands, Tiles};
use super::operands::AttentionGradients;
use super::pass::{Pass, Saved, check_output, delta};
use super::plan::{OF_BACKWARD, key_heads_at_a_time, key_heads_of_forward};
use super::shaders::{FORWARD_PASS, KEY_VALUE_PASS, QUERY_PASS};
use super::stored::Stored;
use crate::KernelError;
use crate::error::check_len;
use crate::kernel::{Kernel, PushConstants};

impl Pass<'_> {
    /// Computes `o` and `stats`; overwrites both.
    pub fn forward(&self, [o, stats]: [&Buffer; 2]) -> Result<(), KernelError> {
        const NAME: &str = "ranged_attention_forward";
        let (placed, of) = (self.placed, &self.placed.attention);
        check_len(NAME, "o", o, of.output_len())?;
        check_len(NAME, "stats", stats, [2, of.all_queries()])?;
        if let Some(key_heads) = key_heads_of_forward(self.device, &placed) {
            return Stored::new(self, key_heads).forward([o, stats]);
        }
        let (chosen, push) = (FORWARD_PASS.of_floats(&placed), placed.push());
        let groups = chosen.groups(of.queries, of.all_heads());
        Kernel::new(NAME, chosen.shader)
            .constants(&chosen.constants)
            .reads(self.words())
            .reads([self.ranges])
            .reads_if(self.operands.counter)
            .writes([o, stats])
            .flops(of.flops(2))
            .launch(
                self.device,
                PushConstants::of(&push),
                groups,
                move |read, [o, stats]| {
                    let [q, k, v, ranges, counter] = read;
                    let operands = Operands::floats([q, k, v], &placed, &[]);
                    let inputs =
                        Inputs::new(operands, Some(ranges), counter, &push, &placed.attention);
                    cpu::forward(inputs, o, stats);
                },
            )
    }

    /// Computes the gradients, contiguous ones.
    pub fn backward(
        &self,
        saved: &Saved<'_>,
        gradients: &AttentionGradients<'_>,
    ) -> Result<(), KernelError> {
        const NAME: &str = "ranged_attention_backward";
        let of = &self.placed.attention;
        check_output(NAME, of, saved.output, saved.delta)?;
        check_len(NAME, "key_ranges", saved.key_ranges, [4, of.batch, of.keys])?;
        let [dq, dk, dv] = gradients.heads.map(|x| x.buffer);
        check_len(NAME, "dq", dq, of.output_len())?;
        check_len(NAME, "dk", dk, of.key_len())?;
        check_len(NAME, "dv", dv, of.key_len())?;
        delta(
            self.device,
            "ranged_attention_delta",
            of,
            saved.output,
            saved.delta,
        )?;
        if let Some(key_heads) = key_heads_at_a_time(self.device, &self.placed, OF_BACKWARD) {
            return Stored::new(self, key_heads).backward(saved, [dq, dk, dv]);
        }
        self.backward_query(saved, dq)?;
        self.backward_key_value(saved, [dk, dv])
    }

    fn backward_query(&self, saved: &Saved<'_>, dq: &Buffer) -> Result<(), KernelError> {
        let (placed, of) = (self.placed, &self.placed.attention);
        let (chosen, push) = (QUERY_PASS.of_floats(&placed), placed.push());
        let groups = chosen.groups(of.queries, of.all_heads());
        Kernel::new("ranged_attention_backward_query", chosen.shader)
            .constants(&chosen.constants)
            .reads(self.words())
            .reads([self.ranges])
            .reads_if(self.operands.counter)
            .reads([saved.output.stats, saved.output.d_o, saved.delta])
            .writes([dq])
            .flops(of.flops(3))
            .launch(
                self.device,
                PushConstants::of(&push),
                groups,
                move |read, [dq]| {
                    let [q, k, v, ranges, counter, stats, d_o, delta] = read;
                    let of = &placed.attention;
                    let operands = Operands::floats([q, k, v], &placed, d_o);
                    let inputs = Inputs::new(operands, Some(ranges), counter, &push, of);
                    let dq = Tiles::of_queries(of, dq, of.contiguous().places[0]);
                    cpu::backward_query(inputs, [stats, delta], dq);
                },
            )
    }

    fn backward_key_value(
        &self,
        saved: &Saved<'_>,
        [dk, dv]: [&Buffer; 2],
    ) -> Result<(), KernelError> {
        let (placed, of) = (self.placed, &self.placed.attention);
        let (chosen, push) = (KEY_VALUE_PASS.of_floats(&placed), placed.push());
        let groups = chosen.groups(of.keys, of.all_key_heads());
        Kernel::new("ranged_attention_backward_key_value", chosen.shader)
            .constants(&chosen.constants)
            .reads(self.words())
            .reads([self.ranges, saved.key_ranges])
            .reads_if(self.operands.counter)
            .reads([saved.output.stats, saved.output.d_o, saved.delta])
            .writes([dk, dv])
            .flops(of.flops(4))
            .launch(
                self.device,
                PushConstants::of(&push),
                groups,
                move |read, [dk, dv]| {
                    let [q, k, v, ranges, key_ranges, counter, stats, d_o, delta] = read;
                    let of = &placed.attention;
                    let operands = Operands::floats([q, k, v], &placed, d_o);
                    let inputs = Inputs::new(operands, Some(ranges), counter, &push, of);
                    let [_, place, _] = of.contiguous().places;
                    let ([dk], [dv]) = (
                        Tiles::of_keys(of, dk, [place]),
                        Tiles::of_keys(of, dv, [place]),
                    );
                    cpu::backward_key_value(inputs, Some(key_ranges), [stats, delta], [dk, dv]);
                },
            )
    }
}
