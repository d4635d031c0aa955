//! Attention over integers of a cache: queries, keys and values are prepared when they are appended
//! ([`append_integer_heads`](crate::attention::append::append_integer_heads)), keys and values once for all queries.
//!
//! Many queries take the kernels of training. Few have two of their own, as in
//! [`few_queries_attention_forward`](crate::attention::ranged::few_queries_attention_forward): one computes scores by blocks of
//! keys, the other what is summed in order; both with the bits of a query among many.

use hlx_core::{Buffer, Device};

use super::super::few_queries::Rows;
use super::{IntegerHeads, contiguous, forward};
use crate::KernelError;
use crate::attention::ranged::RangedAttention;
use crate::error::{check_len, check_that};
use crate::kernel::{Kernel, PushConstants};

shader!(scores_shader, attention::integer_few_scores);
shader!(values_shader, attention::integer_few_values);

const NAME: &str = "integer_attention_of_cache";
/// Rows of a workgroup that computes scores, and of one that sums values.
const SCORE_ROWS: usize = 8;
const VALUE_ROWS: usize = 4;
/// Columns of a workgroup that sums values.
const VALUE_COLUMNS: usize = 16;

/// Computes what [`integer_attention_forward`](super::integer_attention_forward) computes of the numbers that were prepared;
/// overwrites `o`, \[B, T, H, D\]. Every query's document begins at key 0, as without documents, and no weights are dropped.
///
/// `ranges`: what [`query_ranges`](crate::attention::ranged::query_ranges) wrote.
///
/// # Errors
/// If a buffer or operand has other sizes, a size is out of range, weights are dropped, or a launch fails.
pub fn integer_attention_of_cache(
    device: &Device,
    [q, k, v]: [&IntegerHeads; 3],
    ranges: &Buffer,
    o: &Buffer,
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    attention.check(NAME)?;
    check_that(NAME, attention.dropout.is_none(), || {
        "weights are dropped, expected none".to_owned()
    })?;
    let of_queries = super::Heads::of_queries(attention, super::Width::Wide);
    let of_keys = super::Heads::of_keys(attention, super::Width::Narrow);
    for (name, operand, expected) in [("q", q, of_queries), ("k", k, of_keys), ("v", v, of_keys)] {
        check_that(NAME, operand.of == expected, || {
            format!("{name} has {:?}, expected {expected:?}", operand.of)
        })?;
    }
    check_len(
        NAME,
        "ranges",
        ranges,
        [4, attention.batch, attention.queries],
    )?;
    check_len(NAME, "o", o, attention.output_len())?;
    let stats = device.alloc_shape(&[2, attention.all_queries()])?;
    let placed = attention.at([contiguous(attention); 3]);
    // The CPU's tiles have a query a lane, few or many.
    if device.is_cpu() || !attention.is_of_few_queries(device) {
        return forward(device, [q, k, v], ranges, None, [o, &stats], placed);
    }
    let rows = Rows::of(attention);
    let key_heads = attention.batch * attention.key_heads;
    let all_scores = 32 * key_heads * rows.tops();
    check_that(NAME, u32::try_from(all_scores).is_ok(), || {
        format!("{attention:?} has more than 2^32 - 1 scores")
    })?;
    let (scores, tops) = (
        device.alloc(all_scores)?,
        device.alloc_shape(&[key_heads, rows.tops()])?,
    );
    let (push, constants) = (placed.push(), placed.constants());
    let block = PushConstants::of(&push);
    Kernel::new("integer_attention_of_cache_scores", &scores_shader::SHADER)
        .constants(&constants)
        .reads([&q.words, &k.words, ranges])
        .writes([&scores, &tops])
        .flops(attention.flops(1))
        .launch_on_gpu(
            device,
            block,
            key_heads * rows.n.div_ceil(SCORE_ROWS) * rows.blocks,
        )?;
    let column_tiles = attention.head_width.div_ceil(VALUE_COLUMNS);
    Kernel::new("integer_attention_of_cache_values", &values_shader::SHADER)
        .constants(&constants)
        .reads([&v.words, ranges, &scores, &tops])
        .writes([o, &stats])
        .flops(attention.flops(1))
        .launch_on_gpu(
            device,
            block,
            key_heads * rows.n.div_ceil(VALUE_ROWS) * column_tiles,
        )
}
