//! The kernels for few queries have the bits of the kernel for many, on every device.

use hlx_core::digest::canonical_bits;

use super::*;

/// o and stats of a case, by the kernel for many queries and by those for few.
fn both(device: &Device, mem: &mut TestMemory, case: &Case) -> Result<Vec<Buffer>, KernelError> {
    let attention = &case.attention;
    let layout =
        |length, heads| Layout::contiguous(&[attention.batch, length, heads, attention.head_width]);
    let of_queries = layout(attention.queries, attention.heads)?;
    let of_keys = layout(attention.keys, attention.key_heads)?;
    let (q, k, v) = (
        mem.input(device, &case.q)?,
        mem.input(device, &case.k)?,
        mem.input(device, &case.v)?,
    );
    let operands = [(&q, &of_queries), (&k, &of_keys), (&v, &of_keys)];
    let [q, k, v] = operands.map(|(buffer, layout)| Operand { buffer, layout });
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
    let operands = AttentionOperands {
        heads: [q, k, v],
        packed: None,
        limits,
        counter: None,
    };
    let mut outputs = Vec::new();
    for schedule in [Schedule::Rows, Schedule::Few] {
        let o = mem.output(device, attention.output_len())?;
        let stats = mem.output(device, 2 * attention.all_queries())?;
        let ranges = Some(&ranges);
        PreparedAttention::by(schedule, device, &operands, ranges, attention, false)?.forward_to(
            device,
            &operands,
            [&o, &stats],
        )?;
        outputs.extend([o, stats]);
    }
    Ok(outputs)
}

fn assert_equal(name: &str, got: &[Vec<f32>]) {
    for (what, at) in [("o", 0), ("stats", 1)] {
        let [many, few] = [&got[at], &got[at + 2]].map(|values| {
            values
                .iter()
                .map(|x| canonical_bits(*x))
                .collect::<Vec<_>>()
        });
        assert_eq!(many, few, "{name}: {what}");
    }
}

/// Few queries and many keys: each tile's edges, every number of rows of a key head about a workgroup's.
pub(super) fn few() -> Vec<(&'static str, Case)> {
    let cached = Attention {
        keys: 137,
        causal: true,
        ..PLAIN
    };
    let at_the_end = |attention: Attention, lengths: &[u32]| Case {
        lengths: Some(lengths.to_vec()),
        first_positions: Some(
            lengths
                .iter()
                .map(|length| length - attention.queries as u32)
                .collect(),
        ),
        ..case(Attention {
            batch: lengths.len(),
            ..attention
        })
    };
    vec![
        (
            "one query a sample, lengths about a block's and a round's",
            at_the_end(
                Attention {
                    heads: 4,
                    key_heads: 2,
                    ..cached
                },
                &[1, 31, 32, 33, 64, 127, 128, 129, 137],
            ),
        ),
        (
            "nine rows of a key head, over two tiles",
            at_the_end(
                Attention {
                    queries: 3,
                    heads: 3,
                    ..cached
                },
                &[3, 34, 66, 136],
            ),
        ),
        (
            "a window and a cap",
            at_the_end(
                Attention {
                    queries: 2,
                    heads: 5,
                    window: Some(40),
                    soft_cap: Some(0.9),
                    ..cached
                },
                &[2, 39, 100, 137],
            ),
        ),
        (
            "a window from within a block",
            at_the_end(
                Attention {
                    queries: 4,
                    window: Some(3),
                    ..cached
                },
                &[34, 66],
            ),
        ),
        (
            "heads of 33 columns",
            at_the_end(
                Attention {
                    head_width: 33,
                    ..cached
                },
                &[70],
            ),
        ),
        (
            "heads of 256 columns",
            at_the_end(
                Attention {
                    head_width: 256,
                    scale: 0.06,
                    keys: 70,
                    ..cached
                },
                &[70],
            ),
        ),
        (
            "more blocks than have their maxima joined at a time",
            at_the_end(
                Attention {
                    keys: 4_200,
                    heads: 2,
                    key_heads: 1,
                    head_width: 20,
                    ..cached
                },
                &[2_047, 2_049, 2_200, 4_097],
            ),
        ),
        (
            "a window that begins in one such span and ends in the next",
            at_the_end(
                Attention {
                    keys: 2_200,
                    queries: 2,
                    window: Some(300),
                    head_width: 4,
                    ..cached
                },
                &[2_100, 2_180],
            ),
        ),
        ("one key", at_the_end(Attention { keys: 1, ..cached }, &[1])),
    ]
}

#[test]
fn few_queries_have_the_bits_of_the_general_kernel_on_every_device() {
    let others = cases()
        .into_iter()
        .filter(|(_, case)| case.documents.is_none() && case.attention.dropout.is_none());
    for (name, case) in hlx_core::testing::cases(few().into_iter().chain(others), 3) {
        let got = run_everywhere("few_queries", |device, mem| both(device, mem, &case));
        assert_equal(name, &got);
    }
}

/// Awkward values, and infinities and NaN in keys and values past the lengths and before the window.
#[test]
fn awkward_and_unseen_values_have_the_bits_of_the_general_kernel() {
    for (name, mut case) in hlx_core::testing::cases(few(), 3) {
        let attention = case.attention;
        case.q = values(5, case.q.len());
        (case.k, case.v) = (values(7, case.k.len()), values(8, case.v.len()));
        let got = run_everywhere("few_queries", |device, mem| both(device, mem, &case));
        assert_equal(name, &got);
        let mut case = super::case(attention);
        (case.lengths, case.first_positions) = (
            Some(vec![50; attention.batch]),
            Some(vec![49; attention.batch]),
        );
        let per_key = attention.key_heads * attention.head_width;
        let unseen = 50.min(attention.keys) * per_key;
        for values in [&mut case.k, &mut case.v] {
            for sample in values.chunks_mut(attention.keys * per_key) {
                sample[unseen..].fill(f32::NAN);
            }
        }
        let got = run_everywhere("few_queries", |device, mem| both(device, mem, &case));
        assert_equal(name, &got);
        assert!(got[2].iter().all(|x| !x.is_nan()), "{name}");
    }
}

#[test]
fn dropped_weights_are_refused() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let mut case = case(PLAIN);
    case.attention.dropout = Some(WeightDropout {
        p: 0.5,
        seed: 1,
        purpose: 2,
    });
    let error = both(&device, &mut TestMemory::default(), &case).expect_err("dropped weights");
    let text = error.to_string();
    assert!(
        text.contains("counter") || text.contains("dropped"),
        "{text}"
    );
}
