//! Attention over the quantised heads of a cache has the bits of attention over the numbers that were appended, on every device.

use hlx_core::digest::canonical_bits;

use super::few_queries::few;
use super::*;
use crate::attention::append::{AppendInputs, HeadRows, append_integer_heads};

/// Appends `time` tokens per sample to caches with room for as many; `q` and `k`, `v` of this many heads.
fn appended(
    device: &Device,
    mem: &mut TestMemory,
    attention: &Attention,
    time: usize,
    heads: usize,
    [q, k, v]: [&Buffer; 3],
) -> Result<[QuantisedHeads; 3], KernelError> {
    let (batch, key_heads, head_width) =
        (attention.batch, attention.key_heads, attention.head_width);
    let shape = Attention {
        queries: time,
        keys: time,
        heads,
        ..*attention
    };
    let rows = |buffer, heads: usize| HeadRows {
        buffer,
        first: 0,
        stride: heads * head_width,
    };
    let inputs = AppendInputs {
        q: rows(q, heads),
        k: rows(k, key_heads),
        v: rows(v, key_heads),
        norms: None,
        rotation: None,
        first_positions: &mem.input_u32(device, &vec![0; batch])?,
        lengths: &mem.input_u32(device, &vec![time as u32; batch])?,
        pages: None,
    };
    let q_out = QuantisedHeads::of_queries(device, [batch, time], [heads, head_width])?;
    let cache = || QuantisedHeads::of_keys(device, [batch, time], [key_heads, head_width]);
    let (keys, values) = (cache()?, cache()?);
    append_integer_heads(device, &inputs, &q_out, [&keys, &values], &shape)?;
    Ok([q_out, keys, values])
}

/// o of a case, by a quantised cache.
fn cached(device: &Device, mem: &mut TestMemory, case: &Case) -> Result<Buffer, KernelError> {
    let attention = &case.attention;
    let buffers = [&case.q, &case.k, &case.v].map(|x| mem.input(device, x));
    let [q, k, v] = buffers;
    let (q, k, v) = (q?, k?, v?);
    let (time, heads) = (attention.keys, attention.key_heads);
    let [_, keys, values] = appended(device, mem, attention, time, heads, [&k, &k, &v])?;
    // Queries alone: their keys are any numbers.
    let spare = attention.batch * attention.queries * attention.key_heads * attention.head_width;
    let spare = mem.input(device, &normal(6, spare))?;
    let (time, heads) = (attention.queries, attention.heads);
    let [queries, ..] = appended(device, mem, attention, time, heads, [&q, &spare, &spare])?;
    let mut ids = |ids: &Option<Vec<u32>>| match ids {
        Some(ids) => mem.input_u32(device, ids).map(Some),
        None => Ok(None),
    };
    let (lengths, first_positions) = (ids(&case.lengths)?, ids(&case.first_positions)?);
    let limits = Limits {
        documents: None,
        lengths: lengths.as_ref(),
        first_positions: first_positions.as_ref(),
    };
    let ranges = mem.output(device, 4 * attention.batch * attention.queries)?;
    query_ranges(device, &limits, &ranges, attention)?;
    let o = mem.output(device, attention.output_len())?;
    let operands = [&queries, &keys, &values];
    integer_attention_of_cache(device, operands, None, &ranges, &o, attention)?;
    Ok(o)
}

/// Software Vulkan ends a thread's loops after 65,535 iterations, fewer than the general kernel takes for the longest case: its bits
/// come from the CPU.
fn assert_equal(name: &str, case: &Case) -> Vec<f32> {
    let numbers = Case {
        quantised: true,
        ..case.clone()
    };
    let whole = on_the_cpu(&numbers).swap_remove(0);
    let got = run_everywhere(name, |device, mem| Ok(vec![cached(device, mem, case)?]));
    let [whole, found] = [&whole, &got[0]].map(|values| {
        let bits = values.iter().map(|x| canonical_bits(*x));
        bits.collect::<Vec<_>>()
    });
    assert_eq!(whole, found, "{name}");
    got[0].clone()
}

#[test]
fn cached_quantised_heads_have_the_bits_of_the_numbers() {
    let others = cases()
        .into_iter()
        .filter(|(_, case)| case.documents.is_none() && case.attention.dropout.is_none());
    for (name, case) in hlx_core::testing::cases(few().into_iter().chain(others), 3) {
        assert_equal(name, &case);
    }
}

/// Awkward values, and infinities and NaN past the lengths.
#[test]
fn awkward_and_unseen_integers_have_the_bits_of_the_numbers() {
    for (name, mut case) in few() {
        let attention = case.attention;
        case.q = values(5, case.q.len());
        (case.k, case.v) = (values(7, case.k.len()), values(8, case.v.len()));
        assert_equal(name, &case);
        let mut case = super::case(attention);
        let at = 50.min(attention.keys as u32) - attention.queries.min(attention.keys) as u32;
        (case.lengths, case.first_positions) = (
            Some(vec![50; attention.batch]),
            Some(vec![at; attention.batch]),
        );
        let per_key = attention.key_heads * attention.head_width;
        let unseen = 50.min(attention.keys) * per_key;
        for (values, no_number) in [(&mut case.k, f32::NAN), (&mut case.v, f32::INFINITY)] {
            for sample in values.chunks_mut(attention.keys * per_key) {
                sample[unseen..].fill(no_number);
            }
        }
        let got = assert_equal(name, &case);
        assert!(got.iter().all(|x| !x.is_nan()), "{name}");
    }
}

#[test]
fn unfitting_caches_are_named() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let heads =
        |positions| QuantisedHeads::of_keys(&device, [1, positions], [1, 8]).expect("memory");
    let (q, o) = (heads(1), device.alloc(8).expect("memory"));
    let ranges = device.alloc(4).expect("memory");
    let attention = Attention { keys: 3, ..PLAIN };
    let operands = [&q, &heads(3), &heads(3)];
    let refused = integer_attention_of_cache(&device, operands, None, &ranges, &o, &attention);
    let text = refused.expect_err("queries with one digit").to_string();
    assert!(
        text.starts_with("integer_attention_of_cache: q has "),
        "{text}"
    );
    let refused = QuantisedHeads::of_keys(&device, [1, 1], [1, 257]).expect_err("wide heads");
    let expected = "integer_heads: head_width is 257, expected 1 to 256";
    assert_eq!(refused.to_string(), expected);
}
