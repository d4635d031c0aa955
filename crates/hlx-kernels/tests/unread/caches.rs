//! Caches of keys and values: places behind a sequence's length, and padding among new tokens.

use hlx_core::DType;
use hlx_kernels::KernelError;
use hlx_kernels::attention::append::{
    AppendInputs, HeadNorms, HeadRotation, HeadRows, append_heads, append_integer_heads,
};
use hlx_kernels::attention::{Attention, QuantisedHeads, integer_attention_of_cache};
use hlx_kernels::testing::normal;

use crate::Entry;
use crate::attention::{Case, Operands, Seen, place};
use crate::run::Run;

/// `o` from a quantised cache whose places behind the lengths hold anything.
pub fn of_cache(run: &mut Run<'_>, case: &Case) -> Result<(), KernelError> {
    let (a, device) = (case.attention, run.device);
    let lengths = case.lengths.clone().unwrap_or_default();
    let seen = Seen::new(run, case)?;
    let operands = Operands::new(
        run,
        case,
        [&|_, _| false, &|sample, key| {
            !seen.is_seen(sample, 0..a.queries, key)
        }],
    )?;
    let [q, k, v] = &operands.buffers;
    let shape = |queries, heads| Attention {
        queries,
        heads,
        ..a
    };
    let rows = |buffer, heads: usize| HeadRows {
        buffer,
        first: 0,
        stride: heads * a.head_width,
    };
    let zeros = run.ids(&vec![0; a.batch])?;
    let lengths_buffer = run.ids(&lengths)?;
    let all = run.ids(&vec![a.queries as u32; a.batch])?;
    let cache = || QuantisedHeads::of_keys(device, [a.batch, a.keys], [a.key_heads, a.head_width]);
    let caches = [
        spoiled(run, &cache()?, &lengths)?,
        spoiled(run, &cache()?, &lengths)?,
    ];
    let no_queries =
        QuantisedHeads::of_queries(device, [a.batch, a.keys], [a.key_heads, a.head_width])?;
    let inputs = AppendInputs {
        q: rows(k, a.key_heads),
        k: rows(k, a.key_heads),
        v: rows(v, a.key_heads),
        norms: None,
        rotation: None,
        first_positions: &zeros,
        lengths: &lengths_buffer,
        pages: None,
    };
    let [keys, values] = [&caches[0], &caches[1]];
    append_integer_heads(
        device,
        &inputs,
        &no_queries,
        [keys, values],
        &shape(a.keys, a.key_heads),
    )?;
    let queries =
        QuantisedHeads::of_queries(device, [a.batch, a.queries], [a.heads, a.head_width])?;
    let spare = run.input(&normal(6, a.batch * a.keys * a.key_heads * a.head_width))?;
    let unused = [cache()?, cache()?];
    let inputs = AppendInputs {
        q: rows(q, a.heads),
        k: rows(&spare, a.key_heads),
        v: rows(&spare, a.key_heads),
        lengths: &all,
        ..inputs
    };
    let to = [&unused[0], &unused[1]];
    append_integer_heads(device, &inputs, &queries, to, &shape(a.queries, a.heads))?;
    let o = run.output(a.batch * a.queries * a.heads * a.head_width)?;
    integer_attention_of_cache(
        device,
        [&queries, keys, values],
        None,
        &seen.of_queries,
        &o,
        &a,
    )?;
    run.collect(&o)
}

/// The heads of a cache whose words of places behind the lengths, and behind all rows, are spoiled.
fn spoiled(
    run: &mut Run<'_>,
    heads: &QuantisedHeads,
    lengths: &[u32],
) -> Result<QuantisedHeads, KernelError> {
    let words = run.device.download_words(heads.words())?;
    let [digits, exponents] = heads.of_sequence();
    let batch = lengths.len();
    let row_words = digits / exponents;
    let hidden = |at: usize| {
        let row = match at < batch * digits {
            true => at / row_words,
            false => at - batch * digits,
        };
        let (sample, position) = (row / exponents, row % heads.positions());
        lengths
            .get(sample)
            .is_none_or(|&length| position >= length as usize)
    };
    let buffer = run.ids_hiding(&words, hidden)?;
    heads.with_words(batch, buffer.view_as(DType::U32, words.len())?)
}

/// Padding tokens enter no cache, and the cache's other places stay.
fn appended(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (batch, time, heads, width, capacity) = (2, 3, 2, 10, 7);
    let (first, lengths) = ([0_u32, 4], [2_u32, 7]);
    let is_padding = |at: usize| {
        let (sample, token) = place(at, time, heads * width);
        first[sample] as usize + token >= lengths[sample] as usize
    };
    let [q, k, v] = [1, 2, 3].map(|seed| normal(seed, batch * time * heads * width));
    let (q, k) = (
        run.input_hiding(&q, is_padding)?,
        run.input_hiding(&k, is_padding)?,
    );
    let v = run.input_hiding(&v, is_padding)?;
    let stored = normal(4, batch * capacity * heads * width);
    let is_new = |at: usize| {
        let (sample, position) = place(at, capacity, heads * width);
        (first[sample] as usize..lengths[sample] as usize).contains(&position)
    };
    let caches = [
        run.input_hiding(&stored, is_new)?,
        run.input_hiding(&stored, is_new)?,
    ];
    let q_out = run.output(batch * time * heads * width)?;
    let rows = |buffer| HeadRows {
        buffer,
        first: 0,
        stride: heads * width,
    };
    let (gains, frequencies) = (run.input(&normal(5, width))?, run.input(&[1.0, 0.5, 0.25])?);
    let inputs = AppendInputs {
        q: rows(&q),
        k: rows(&k),
        v: rows(&v),
        norms: Some(HeadNorms {
            weights: [&gains, &gains],
            eps: 1e-5,
        }),
        rotation: Some(HeadRotation {
            frequencies: &frequencies,
            scale: 1.0,
        }),
        first_positions: &run.ids(&first)?,
        lengths: &run.ids(&lengths)?,
        pages: None,
    };
    let shape = Attention {
        keys: capacity,
        ..Attention::causal([batch, time], heads, width)
    };
    append_heads(
        run.device,
        &inputs,
        &q_out,
        [&caches[0], &caches[1]],
        &shape,
    )?;
    run.collect_where(&q_out, |at| !is_padding(at))?;
    run.collect_all(&caches)
}

/// The bodies beside those of the cases.
pub fn entries() -> Vec<Entry> {
    vec![Entry::new(
        "tokens on their way into a cache",
        &[],
        appended,
    )]
}
