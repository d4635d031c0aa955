//! The forward pass of few queries of a sample and many keys, as when text is generated: the bits of the kernels of
//! rows, which walk the keys with a workgroup for 64 queries of a head.
//!
//! Scores do not depend on each other, so one launch spreads them over blocks of keys; what must be summed
//! in the keys' order is a second one's, which spreads the columns of a head. Both share a key head's keys
//! and values among its query heads. Which keys there are is read on the device: a recorded graph serves
//! every length up to the operands' extent, and launches no more work than the keys in use need, except for
//! workgroups that end at once.

use hlx_core::{Buffer, Device, Shader};

use super::cpu::{self, FewRows, Inputs, Operands};
use super::pages::{self, Pages, Table};
use super::sizes::Placed;
use crate::Result;
use crate::kernel::{Kernel, PushConstants};
use crate::tuning::KernelTuning;

shader!(attention::{few_queries_scores, few_queries_values, integer_few_scores, integer_few_values});

/// Rows of a workgroup that computes scores.
const SCORE_ROWS: usize = 8;

/// The two kernels of an arithmetic.
pub struct Few {
    names: [&'static str; 2],
    shaders: [&'static Shader; 2],
    /// Rows of a workgroup that sums values.
    value_rows: usize,
    /// Its columns, from the most that its shader takes: each workgroup weighs all keys for itself.
    value_columns: &'static [usize],
    /// The CPU device takes the kernels of rows.
    on_gpu_alone: bool,
}

pub const OF_FLOATS: Few = Few {
    names: [
        "few_queries_attention_scores",
        "few_queries_attention_values",
    ],
    shaders: [&few_queries_scores::SHADER, &few_queries_values::SHADER],
    value_rows: 8,
    value_columns: &[16],
    on_gpu_alone: false,
};
pub const OF_INTEGERS: Few = Few {
    names: [
        "integer_attention_of_cache_scores",
        "integer_attention_of_cache_values",
    ],
    shaders: [&integer_few_scores::SHADER, &integer_few_values::SHADER],
    value_rows: 4,
    value_columns: &[64, 32, 16],
    on_gpu_alone: true,
};

impl Few {
    fn takes_columns(&self) -> bool {
        self.value_columns.len() > 1
    }

    /// Computes `o` and `stats` of the operands' words, whose queries' documents begin at key 0; no weights are dropped.
    pub fn forward(
        &self,
        device: &Device,
        [q, k, v]: [&Buffer; 3],
        ranges: &Buffer,
        pages: Option<&Pages<'_>>,
        [o, stats]: [&Buffer; 2],
        placed: Placed,
    ) -> Result<()> {
        let (of, [of_scores, of_values]) = (placed.attention, self.names);
        of.expect_no_dropout(of_scores)?;
        let (rows, key_heads) = (FewRows::of(&of), of.all_key_heads());
        let all_scores = 32 * key_heads * rows.tops();
        check_that!(of_scores, u32::try_from(all_scores).is_ok() =>
            "{of:?} has more than 2^32 - 1 scores")?;
        let scores = device.alloc(all_scores)?;
        let tops = device.alloc_shape(&[key_heads, rows.tops()])?;
        let constants = placed.constants();
        let (table, is_paged) = (pages.map(|pages| pages.table), pages.is_some());
        let block = PushConstants::of(&placed.push());
        let kernel = Kernel::new(of_scores, self.shaders[0])
            .constants(constants)
            .constants(pages::constants(pages))
            .reads([q, k])
            .read("query_ranges", ranges, [4, of.batch, of.queries])?
            .writes([&scores, &tops])
            .reads_if(table)
            .flops(of.flops(1));
        let groups = key_heads * rows.n.div_ceil(SCORE_ROWS) * rows.blocks;
        if self.on_gpu_alone && device.is_cpu() {
            return kernel.launch_on_gpu(device, block, groups); // It refuses.
        }
        kernel.launch(
            device,
            block,
            groups,
            move |[q, k, ranges, table], written| {
                let table = Table::new(table, is_paged, of.keys);
                let operands = Operands::floats([q, k, &[]], &placed, &[]).in_pages(table);
                let inputs = Inputs::new(operands, ranges, &[], &placed);
                let [scores, tops] = written;
                cpu::scores(inputs, scores, tops);
            },
        )?;
        let row_tiles = key_heads * rows.n.div_ceil(self.value_rows);
        let groups = |columns: usize| row_tiles * of.head_width.div_ceil(columns);
        let full = KernelTuning::of(device).attention.full_groups;
        let mut columns = self.value_columns.iter().copied();
        let columns = columns
            .find(|&columns| groups(columns) >= full)
            .unwrap_or(16);
        let kernel = Kernel::new(of_values, self.shaders[1])
            .constants(constants)
            .constants(
                self.takes_columns()
                    .then_some((9, columns as u32))
                    .as_slice(),
            )
            .constants(pages::constants(pages))
            .reads([v, ranges, &scores, &tops])
            .write("o", o, of.output_len())?
            .write("stats", stats, [2, of.all_queries()])?
            .reads_if(table)
            .flops(of.flops(1));
        kernel.launch(device, block, groups(columns), move |read, [o, stats]| {
            let [v, ranges, scores, tops, table] = read;
            let table = Table::new(table, is_paged, of.keys);
            let operands = Operands::floats([&[], &[], v], &placed, &[]).in_pages(table);
            let inputs = Inputs::new(operands, ranges, &[], &placed);
            cpu::values(inputs, [scores, tops], o, stats);
        })
    }
}
