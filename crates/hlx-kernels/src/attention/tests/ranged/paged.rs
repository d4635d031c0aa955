//! Caches in pages that are anywhere in a pool have the bits of keys and values that lie side by side, on every device.

use hlx_core::digest::canonical_bits;

use super::few_queries::few;
use super::*;
use crate::attention::append::{AppendInputs, HeadRows, append_heads, append_integer_heads};
use crate::attention::few;
use crate::attention::heads::Heads;
use crate::attention::rows::{Kind, RowOperands};
use crate::product::quantised::Digits;

/// The pages of each sequence's blocks, no two of them neighbours in order, and how many the pool has: more than are used.
fn scattered(batch: usize, keys: usize) -> (Vec<u32>, usize) {
    let used = batch * keys.div_ceil(PAGE);
    let n = (used + 2..)
        .find(|n| !n.is_multiple_of(7))
        .expect("a number");
    let table = (0..used).map(|block| (7 * (block + 3) % n) as u32);
    (table.collect(), n)
}

/// A case with room for whole pages, and with the limits that it had without it.
fn in_pages(case: &Case) -> Case {
    let of = &case.attention;
    let limited = |given: &Option<Vec<u32>>, other: usize| {
        let given = given.clone();
        Some(given.unwrap_or_else(|| vec![other as u32; of.batch]))
    };
    let lengths = limited(&case.lengths, of.keys).into_iter().flatten();
    Case {
        lengths: Some(lengths.map(|length| length.min(of.keys as u32)).collect()),
        first_positions: limited(&case.first_positions, of.keys.saturating_sub(of.queries)),
        attention: Attention {
            keys: of.keys.next_multiple_of(PAGE),
            ..*of
        },
        ..case.clone()
    }
}

fn rows(buffer: &Buffer, heads: usize, width: usize) -> HeadRows<'_> {
    HeadRows {
        buffer,
        first: 0,
        stride: heads * width,
    }
}

/// o of a case, by the kernels that the arithmetic has for caches.
fn paged(device: &Device, mem: &mut TestMemory, case: &Case) -> Result<Vec<Buffer>, KernelError> {
    let (n_keys, given) = (case.attention.keys, in_pages(case));
    let of = &given.attention;
    let (table, n) = scattered(of.batch, of.keys);
    let pages = Pages {
        table: &mem.input_u32(device, &table)?,
        n,
        in_order: false,
    };
    let buffers = [&case.q, &case.k, &case.v].map(|x| mem.input(device, x));
    let [q, k, v] = buffers;
    let (q, k, v) = (q?, k?, v?);
    let mut ids = |ids: &[u32]| mem.input_u32(device, ids);
    let zeros = ids(&vec![0; of.batch])?;
    let all = ids(&vec![n_keys as u32; of.batch])?;
    let lengths = ids(given.lengths.as_deref().unwrap_or_default())?;
    let first_positions = ids(given.first_positions.as_deref().unwrap_or_default())?;
    let inputs = AppendInputs {
        q: rows(&q, 0, of.head_width),
        k: rows(&k, of.key_heads, of.head_width),
        v: rows(&v, of.key_heads, of.head_width),
        norms: None,
        rotation: None,
        first_positions: &zeros,
        lengths: &all,
        pages: Some(pages),
    };
    let appended = Attention {
        queries: n_keys,
        heads: 0,
        ..*of
    };
    let limits = Limits {
        documents: None,
        lengths: Some(&lengths),
        first_positions: Some(&first_positions),
    };
    let ranges = mem.output(device, 4 * of.batch * of.queries)?;
    query_ranges(device, &limits, &ranges, of)?;
    let o = mem.output(device, of.output_len())?;
    if case.quantised {
        let heads = [of.key_heads, of.head_width];
        let cache = || QuantisedHeads::of_keys(device, [n, PAGE], heads);
        let (keys, values) = (cache()?, cache()?);
        let none = QuantisedHeads::of_queries(device, [of.batch, n_keys], [0, of.head_width])?;
        append_integer_heads(device, &inputs, &none, [&keys, &values], &appended)?;
        let place = of.output_place();
        let (q, _) = Heads::of_queries(of, Digits::Two).prepare(device, &q, place, false)?;
        let operands = [&q, &keys, &values];
        integer_attention_of_cache(device, operands, Some(&pages), &ranges, &o, of)?;
        return Ok(vec![o]);
    }
    // What no token was written to is NaN.
    let pool = n * PAGE * of.key_heads * of.head_width;
    let (keys, values) = (mem.output(device, pool)?, mem.output(device, pool)?);
    let none = device.alloc(0)?;
    append_heads(device, &inputs, &none, [&keys, &values], &appended)?;
    let placed = of.paged(&pages);
    let stats = mem.output(device, 2 * of.all_queries())?;
    let by_rows = RowOperands {
        device,
        kind: Kind::Floats,
        words: [&q, &keys, &values, &q, &q],
        ranges: &ranges,
        counter: None,
        pages: Some(pages),
        placed,
    };
    by_rows.forward([&o, &stats])?;
    let by_few = mem.output(device, of.output_len())?;
    let (words, outputs) = ([&q, &keys, &values], [&by_few, &stats]);
    few::OF_FLOATS.forward(device, words, &ranges, Some(&pages), outputs, placed)?;
    Ok(vec![o, by_few])
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| canonical_bits(*x)).collect()
}

fn all() -> impl Iterator<Item = (&'static str, Case)> {
    let others = cases()
        .into_iter()
        .filter(|(_, case)| case.documents.is_none() && case.attention.dropout.is_none());
    both_arithmetics(few().into_iter().chain(others).collect())
}

#[test]
fn scattered_pages_have_the_bits_of_rows_side_by_side() {
    for (name, case) in hlx_core::testing::cases(all(), 3) {
        let whole = on_the_cpu(&case).swap_remove(0);
        let got = run_everywhere("pages", |device, mem| paged(device, mem, &case));
        for found in got {
            assert_eq!(bits(&whole), bits(&found), "{name}, {}", case.quantised);
        }
    }
}

/// Tokens in two pieces through `CachedHeads`, which chooses the kernels: o of the second one.
fn attended(
    device: &Device,
    mem: &mut TestMemory,
    case: &Case,
    is_in_order: bool,
) -> Result<Vec<Buffer>, KernelError> {
    let of = Attention {
        keys: case.attention.keys.next_multiple_of(PAGE),
        ..case.attention
    };
    let (mut table, mut n) = scattered(of.batch, of.keys);
    if is_in_order {
        n = table.len();
        table = (0..n as u32).collect();
    }
    let [q, k, v] = [&case.q, &case.k, &case.v].map(|x| mem.input(device, x));
    let (q, k, v) = (q?, k?, v?);
    let cache = CachedHeads::new(device, n, [of.key_heads, of.head_width])?;
    let (old, new) = (case.attention.keys - of.queries, of.queries);
    let pages = Pages {
        table: &mem.input_of::<u32>(device, &table)?,
        n,
        in_order: is_in_order,
    };
    let per_key = of.key_heads * of.head_width;
    let mut piece = |first: usize, time: usize, q: &Buffer| -> Result<Buffer, KernelError> {
        let of = Attention {
            queries: time,
            ..of
        };
        let [k, v] = [&k, &v].map(|buffer| HeadRows {
            first: first * per_key,
            ..rows(buffer, of.key_heads, of.head_width)
        });
        let end = first + time;
        let inputs = AppendInputs {
            q: rows(q, of.heads, of.head_width),
            k,
            v,
            norms: None,
            rotation: None,
            first_positions: &mem.input_u32(device, &[first as u32])?,
            lengths: &mem.input_u32(device, &[end as u32])?,
            pages: Some(pages),
        };
        let limits = Limits {
            documents: None,
            lengths: Some(inputs.lengths),
            first_positions: Some(inputs.first_positions),
        };
        let ranges = mem.output(device, 4 * time)?;
        query_ranges(device, &limits, &ranges, &of)?;
        cache.attend(device, &inputs, &ranges, None, &of)
    };
    let spare = device.alloc(old * of.heads * of.head_width)?;
    device.fill(&spare, 0)?;
    piece(0, old, &spare)?;
    Ok(vec![piece(old, new, &q)?])
}

/// Kernels of one, few and many queries, and those that store scores, which read keys and values side by side.
#[test]
fn a_pool_gives_the_bits_of_whole_sequences() {
    for (queries, keys, head_width) in [(1, 70, 8), (5, 64, 80), (70, 100, 16), (64, 97, 72)] {
        let case = case(Attention {
            queries,
            keys,
            heads: 4,
            key_heads: 2,
            head_width,
            causal: true,
            ..PLAIN
        });
        let whole = on_the_cpu(&case).swap_remove(0);
        for is_in_order in [false, true] {
            let got = run_everywhere("a pool", |device, mem| {
                attended(device, mem, &case, is_in_order)
            });
            let name = format!("{queries} of {keys}, {head_width}, {is_in_order}");
            assert_eq!(bits(&whole), bits(&got[0]), "{name}");
        }
    }
}

#[test]
fn unfitting_tables_are_named() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let cache = CachedHeads::new(&device, 3, [1, 8]).expect("memory");
    let (x, ids) = (
        &device.alloc(64).expect("memory"),
        &device.alloc(1).expect("memory"),
    );
    let refused = |keys: usize, pages: Option<Pages<'_>>| {
        let inputs = AppendInputs {
            q: rows(x, 1, 8),
            k: rows(x, 1, 8),
            v: rows(x, 1, 8),
            norms: None,
            rotation: None,
            first_positions: ids,
            lengths: ids,
            pages,
        };
        let of = Attention { keys, ..PLAIN };
        let refused = cache.attend(&device, &inputs, x, None, &of);
        refused.expect_err("refused").to_string()
    };
    let pages = |n| Pages {
        table: ids,
        n,
        in_order: false,
    };
    assert_eq!(
        refused(32, None),
        "key/value cache: the table is of 0 pages, expected 3"
    );
    assert_eq!(
        refused(32, Some(pages(2))),
        "key/value cache: the table is of 2 pages, expected 3"
    );
    assert_eq!(
        refused(33, Some(pages(3))),
        "append_heads: 33 keys in pages, expected a multiple of 32"
    );
    assert!(refused(64, Some(pages(3))).starts_with("append_heads: pages has 1 element"));
}
