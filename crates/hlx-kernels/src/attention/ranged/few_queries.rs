//! The forward pass for few queries of a sample and many keys, as when text is generated: the bits of
//! [`ranged_attention_forward`](super::ranged_attention_forward), which walks the keys with a workgroup for
//! 64 queries of a head.
//!
//! Scores do not depend on each other, so one launch spreads them over blocks of keys; what must be summed
//! in the keys' order is a second one's, which spreads the columns of a head. Both share a key head's keys
//! and values among its query heads. Which keys there are is read on the device: a recorded graph serves
//! every length up to the operands' extent, and launches no more work than the keys in use need, but for
//! workgroups that end at once.

use hlx_core::{Buffer, Device};

use super::{AttentionInputs, RangedAttention, cpu};
use crate::KernelError;
use crate::attention::tile::TILE;
use crate::error::{check_len, check_that};
use crate::kernel::{Kernel, PushConstants};

shader!(scores_shader, attention::few_queries_scores);
shader!(values_shader, attention::few_queries_values);

/// Rows of a workgroup that computes scores, and of one that sums values.
const SCORE_ROWS: usize = 8;
const VALUE_ROWS: usize = 8;
/// Columns of a workgroup that sums values.
const VALUE_COLUMNS: usize = 16;

/// The queries of a key head: `T` in each of the query heads that share it.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub n: usize,
    /// Blocks of keys.
    pub blocks: usize,
    group: usize,
}

impl Rows {
    pub fn of(attention: &RangedAttention) -> Self {
        let group = attention.group();
        Self {
            n: attention.queries * group,
            blocks: attention.keys.div_ceil(TILE),
            group,
        }
    }

    /// Blocks of all rows.
    pub fn tops(&self) -> usize {
        self.n * self.blocks
    }

    pub fn query(&self, row: usize) -> usize {
        row / self.group
    }

    /// The query and the head of a row.
    pub fn place(&self, key_head: usize, row: usize) -> (usize, usize) {
        (self.query(row), key_head * self.group + row % self.group)
    }
}

/// Computes what [`ranged_attention_forward`](super::ranged_attention_forward) computes, faster where there
/// are few queries and many keys. Every query's document begins at key 0, as without documents, and no
/// weights are dropped.
///
/// `o`: `[B, T, H, D]`; `stats`: `[B, H, T, 2]`.
///
/// # Errors
/// If a buffer or operand has another shape, a size is out of range, weights are dropped, or a launch fails.
pub fn few_queries_attention_forward(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    o: &Buffer,
    stats: &Buffer,
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    const NAME: &str = "few_queries_attention_forward";
    attention.check(NAME)?;
    check_that(NAME, attention.dropout.is_none(), || {
        "weights are dropped, expected none".to_owned()
    })?;
    let placed = attention.at(attention.places(NAME, inputs)?);
    check_len(NAME, "o", o, attention.output_len())?;
    check_len(NAME, "stats", stats, [2, attention.all_queries()])?;
    let rows = Rows::of(attention);
    let key_heads = attention.batch * attention.key_heads;
    let all_scores = key_heads * rows.tops() * TILE;
    check_that(NAME, u32::try_from(all_scores).is_ok(), || {
        format!("{attention:?} has more than 2^32 - 1 scores")
    })?;
    let (scores, tops) = (
        device.alloc(all_scores)?,
        device.alloc_shape(&[key_heads, rows.tops()])?,
    );
    let (push, constants) = (placed.push(), placed.constants());
    let block = PushConstants::of(&push);
    let flops = attention.flops(1);
    let groups = key_heads * rows.n.div_ceil(SCORE_ROWS) * rows.blocks;
    Kernel::new("few_queries_attention_scores", &scores_shader::SHADER)
        .constants(&constants)
        .reads([inputs.q.buffer, inputs.k.buffer, inputs.query_ranges])
        .writes([&scores, &tops])
        .flops(flops)
        .launch(
            device,
            block,
            groups,
            move |[q, k, ranges], [scores, tops]| {
                let inputs = cpu::Inputs::new([q, k, &[]], &placed, ranges, &[], &push);
                cpu::few_queries::scores(inputs, scores, tops);
            },
        )?;
    let column_tiles = attention.head_width.div_ceil(VALUE_COLUMNS);
    let groups = key_heads * rows.n.div_ceil(VALUE_ROWS) * column_tiles;
    Kernel::new("few_queries_attention_values", &values_shader::SHADER)
        .constants(&constants)
        .reads([inputs.v.buffer, inputs.query_ranges, &scores, &tops])
        .writes([o, stats])
        .flops(flops)
        .launch(
            device,
            block,
            groups,
            move |[v, ranges, scores, tops], [o, stats]| {
                let inputs = cpu::Inputs::new([&[], &[], v], &placed, ranges, &[], &push);
                cpu::few_queries::values(inputs, [scores, tops], o, stats);
            },
        )
}
