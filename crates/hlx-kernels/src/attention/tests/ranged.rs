//! Attention over ranges on every device, against f64 with a mask written out.

use hlx_core::arith::{self, philox4x32};
use hlx_core::{Buffer, Device};

use crate::attention::*;
use crate::testing::{TestMemory, assert_close, normal, run_everywhere, run_on, values};
use crate::{KernelError, Layout, Operand};

mod cached_quantised;
mod few_queries;
mod halves;
mod paged;
mod quantised;
mod reference;
mod rows;
mod stored;

const PLAIN: Attention = Attention {
    batch: 1,
    queries: 1,
    keys: 1,
    heads: 1,
    key_heads: 1,
    head_width: 8,
    scale: 0.3,
    soft_cap: None,
    dropout: None,
    causal: false,
    window: None,
};

/// An attention with its limits and its data.
#[derive(Clone)]
struct Case {
    attention: Attention,
    documents: Option<Vec<u32>>,
    lengths: Option<Vec<u32>>,
    first_positions: Option<Vec<u32>>,
    /// The step and the first sample, of the draws.
    counter: [u32; 2],
    /// By the kernels of the integer arithmetic.
    quantised: bool,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    d_o: Vec<f32>,
}

/// A case of ordinary values.
fn case(attention: Attention) -> Case {
    let (queries, keys) = (attention.output_len(), attention.key_len());
    Case {
        attention,
        documents: None,
        lengths: None,
        first_positions: None,
        counter: [3, 5],
        quantised: false,
        q: normal(1, queries),
        k: normal(2, keys),
        v: normal(3, keys),
        d_o: normal(4, queries),
    }
}

/// The starts of documents of these lengths, one behind the other.
fn starts(lengths: &[u32]) -> Vec<u32> {
    let mut first = 0;
    let mut starts = Vec::new();
    for &length in lengths {
        starts.extend((0..length).map(|_| first));
        first += length;
    }
    starts
}

/// o, stats, dq, dk, dv of contiguous operands.
fn on(device: &Device, mem: &mut TestMemory, case: &Case) -> Result<Vec<Buffer>, KernelError> {
    let attention = &case.attention;
    let [of_queries, of_keys] = [
        (attention.queries, attention.heads),
        (attention.keys, attention.key_heads),
    ]
    .map(|(length, heads)| {
        Layout::contiguous(&[attention.batch, length, heads, attention.head_width])
    });
    let (of_queries, of_keys) = (of_queries?, of_keys?);
    let [q, k, v, d_o] = [&case.q, &case.k, &case.v, &case.d_o].map(|x| mem.input(device, x));
    let (q, k, v, d_o) = (q?, k?, v?, d_o?);
    let operands = [(&q, &of_queries), (&k, &of_keys), (&v, &of_keys)];
    let [q, k, v] = operands.map(|(buffer, layout)| Operand { buffer, layout });
    both_passes(device, mem, [q, k, v], &d_o, case)
}

fn both_passes(
    device: &Device,
    mem: &mut TestMemory,
    [q, k, v]: [Operand<'_>; 3],
    d_o: &Buffer,
    case: &Case,
) -> Result<Vec<Buffer>, KernelError> {
    let attention = &case.attention;
    let mut ids = |ids: &Option<Vec<u32>>| match ids {
        Some(ids) => mem.input_u32(device, ids).map(Some),
        None => Ok(None),
    };
    let (documents, lengths) = (ids(&case.documents)?, ids(&case.lengths)?);
    let first_positions = ids(&case.first_positions)?;
    let limits = Limits {
        documents: documents.as_ref(),
        lengths: lengths.as_ref(),
        first_positions: first_positions.as_ref(),
    };
    let counter = mem.input_u32(device, &case.counter)?;
    let of_queries = mem.output(device, 4 * attention.batch * attention.queries)?;
    let of_keys = mem.output(device, 4 * attention.batch * attention.keys)?;
    query_ranges(device, &limits, &of_queries, attention)?;
    key_ranges(device, &limits, &of_keys, attention)?;
    let operands = AttentionOperands {
        heads: [q, k, v],
        packed: None,
        limits,
        counter: attention.dropout.map(|_| &counter),
    };
    let o = mem.output(device, attention.output_len())?;
    let stats = mem.output(device, 2 * attention.all_queries())?;
    let delta = mem.output(device, attention.all_queries())?;
    let (schedule, ranges) = (case.schedule(), Some(&of_queries));
    let prepared = PreparedAttention::by(schedule, device, &operands, ranges, attention, true)?;
    prepared.forward_to(device, &operands, [&o, &stats])?;
    let gradients = GradientMemory::new(device, mem, case)?;
    let output = AttentionOutput {
        o: &o,
        stats: &stats,
        d_o,
    };
    prepared.backward_to(device, &operands, &output, &gradients.of(&delta))?;
    let [dq, dk, dv] = gradients.parts()?;
    Ok(vec![o, stats, dq, dk, dv, of_queries, of_keys])
}

impl Case {
    fn schedule(&self) -> Schedule {
        match self.quantised {
            true => Schedule::Quantised,
            false => Schedule::Rows,
        }
    }
}

/// Where a backward pass writes: three buffers, or layouts of one.
struct GradientMemory {
    buffers: [Buffer; 3],
    layouts: [Layout; 3],
}

impl GradientMemory {
    fn new(device: &Device, mem: &mut TestMemory, case: &Case) -> Result<Self, KernelError> {
        let of = &case.attention;
        let (len, layouts) = joint_gradients(of)?;
        if case.quantised {
            let joint = mem.output(device, len)?;
            let buffers = [joint.clone(), joint.clone(), joint];
            return Ok(Self { buffers, layouts });
        }
        let dq = mem.output(device, of.output_len())?;
        let (dk, dv) = (
            mem.output(device, of.key_len())?,
            mem.output(device, of.key_len())?,
        );
        let layouts = layouts.map(|layout| Layout::contiguous(layout.shape()).expect("a layout"));
        let buffers = [dq, dk, dv];
        Ok(Self { buffers, layouts })
    }

    fn of<'a>(&'a self, delta: &'a Buffer) -> AttentionGradients<'a> {
        let heads = [0, 1, 2].map(|i| Operand {
            buffer: &self.buffers[i],
            layout: &self.layouts[i],
        });
        AttentionGradients { delta, heads }
    }

    /// Each by itself.
    fn parts(&self) -> Result<[Buffer; 3], KernelError> {
        let part = |i: usize| {
            let layout: &Layout = &self.layouts[i];
            self.buffers[i].slice(layout.offset(), layout.n_elements())
        };
        Ok([part(0)?, part(1)?, part(2)?])
    }
}

/// o, stats, dq, dk, dv: equal on every device.
fn everywhere(case: &Case) -> Vec<Vec<f32>> {
    run_everywhere("ranged_attention", |device, mem| on(device, mem, case))
}

fn on_the_cpu(case: &Case) -> Vec<Vec<f32>> {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    run_on("ranged_attention", &device, |device, mem| {
        on(device, mem, case)
    })
}

fn assert_agrees(name: &str, case: &Case, got: &[Vec<f32>]) {
    let want = case.reference();
    for ((what, at), want) in [("o", 0), ("dq", 2), ("dk", 3), ("dv", 4)]
        .into_iter()
        .zip(&want)
    {
        if case.quantised {
            // Integers with one digit are off by up to 1/254 of their row's largest.
            let error = got[at]
                .iter()
                .zip(want)
                .map(|(&got, want)| (f64::from(got) - want).powi(2));
            let (error, size) = (
                error.sum::<f64>(),
                want.iter().map(|want| want * want).sum::<f64>(),
            );
            assert!(
                error <= 2e-3 * size + 1e-8,
                "{name}: {what}: {error:e} of {size:e}"
            );
        } else {
            assert_close(&format!("{name}: {what}"), &got[at], want, 2e-5, 5e-5);
        }
    }
}

/// A case a rule, and all rules together; few positions, as a software driver emulates the arithmetic.
fn cases() -> Vec<(&'static str, Case)> {
    let square = |n: usize| Attention {
        queries: n,
        keys: n,
        ..PLAIN
    };
    let causal = |n: usize| Attention {
        causal: true,
        ..square(n)
    };
    let dropout = Some(WeightDropout {
        p: 0.3,
        seed: 0x1234_5678_9abc,
        purpose: 9,
    });
    vec![
        ("one position", case(PLAIN)),
        ("every key", case(square(33))),
        (
            "more keys than queries",
            case(Attention {
                queries: 3,
                ..square(40)
            }),
        ),
        (
            "more queries than keys",
            case(Attention {
                queries: 40,
                ..square(3)
            }),
        ),
        ("causal", case(causal(35))),
        (
            "the last positions",
            case(Attention {
                queries: 5,
                ..causal(37)
            }),
        ),
        (
            "a window",
            case(Attention {
                window: Some(9),
                ..causal(50)
            }),
        ),
        (
            "both sides of a window",
            case(Attention {
                window: Some(9),
                ..square(50)
            }),
        ),
        (
            "grouped heads",
            case(Attention {
                batch: 2,
                heads: 6,
                key_heads: 2,
                ..causal(9)
            }),
        ),
        (
            "one key head",
            case(Attention {
                heads: 3,
                ..causal(9)
            }),
        ),
        (
            "a cap",
            case(Attention {
                soft_cap: Some(0.7),
                ..causal(20)
            }),
        ),
        (
            "dropout",
            case(Attention {
                batch: 2,
                heads: 2,
                dropout,
                ..causal(40)
            }),
        ),
        (
            "documents",
            Case {
                documents: Some([starts(&[3, 20, 1, 22]), starts(&[46])].concat()),
                ..case(Attention {
                    batch: 2,
                    heads: 2,
                    ..causal(46)
                })
            },
        ),
        (
            "documents seen on both sides",
            Case {
                documents: Some(starts(&[3, 20, 1, 22])),
                ..case(square(46))
            },
        ),
        (
            "lengths",
            Case {
                lengths: Some(vec![4, 40, 99]),
                first_positions: Some(vec![0, 0, 0]),
                ..case(Attention {
                    batch: 3,
                    ..causal(40)
                })
            },
        ),
        (
            "a cache",
            Case {
                lengths: Some(vec![4, 40]),
                first_positions: Some(vec![2, 38]),
                ..case(Attention {
                    batch: 2,
                    queries: 2,
                    ..causal(44)
                })
            },
        ),
        (
            "an odd width",
            case(Attention {
                head_width: 33,
                ..causal(20)
            }),
        ),
        (
            "a width of 80",
            case(Attention {
                head_width: 80,
                ..causal(35)
            }),
        ),
        (
            "a width of 132",
            case(Attention {
                head_width: 132,
                ..causal(33)
            }),
        ),
        (
            "all rules",
            Case {
                documents: Some([starts(&[7, 33, 10]), starts(&[40, 10])].concat()),
                lengths: Some(vec![45, 50]),
                first_positions: Some(vec![10, 3]),
                ..case(Attention {
                    batch: 2,
                    queries: 40,
                    keys: 50,
                    heads: 4,
                    key_heads: 2,
                    head_width: 72,
                    soft_cap: Some(2.0),
                    window: Some(21),
                    dropout,
                    ..causal(40)
                })
            },
        ),
    ]
}

/// Each case in either arithmetic.
fn both_arithmetics<T: Clone>(cases: Vec<(T, Case)>) -> impl Iterator<Item = (T, Case)> {
    cases.into_iter().flat_map(|(name, case)| {
        [false, true].map(|quantised| {
            let case = case.clone();
            (name.clone(), Case { quantised, ..case })
        })
    })
}

#[test]
fn every_rule_agrees_with_f64_on_every_device() {
    for (name, case) in hlx_core::testing::cases(both_arithmetics(cases()), 3) {
        assert_agrees(name, &case, &everywhere(&case));
    }
}

#[test]
fn wide_heads_and_long_rows_agree_with_f64_on_the_cpu() {
    let wide = Attention {
        queries: 70,
        keys: 131,
        heads: 2,
        head_width: 256,
        scale: 1.0 / 16.0,
        causal: true,
        ..PLAIN
    };
    let long = Attention {
        queries: 1_000,
        keys: 1_000,
        head_width: 64,
        scale: 0.125,
        window: Some(300),
        causal: true,
        ..PLAIN
    };
    for (_, case) in both_arithmetics(vec![((), case(wide)), ((), case(long))]) {
        assert_agrees("long", &case, &on_the_cpu(&case));
    }
}

#[test]
fn awkward_values_have_equal_bits() {
    let awkward = both_arithmetics(cases()).filter(|(name, _)| {
        ["causal", "a cap", "dropout", "documents", "grouped heads"].contains(name)
    });
    for (_, mut case) in hlx_core::testing::cases(awkward, 3) {
        let lens = [case.q.len(), case.k.len()];
        (case.q, case.d_o) = (values(5, lens[0]), values(6, lens[0]));
        (case.k, case.v) = (values(7, lens[1]), values(8, lens[1]));
        everywhere(&case);
    }
}

#[test]
fn sizes_out_of_range_are_named() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let message = |attention: Attention| {
        let case = case(attention);
        let mut mem = TestMemory::default();
        let error = on(&device, &mut mem, &case).expect_err("out of range");
        error.to_string()
    };
    let wrong = |change: fn(&mut Attention)| {
        let mut attention = PLAIN;
        change(&mut attention);
        message(attention)
    };
    assert_eq!(
        wrong(|a| a.head_width = 257),
        "attention_query_ranges: head_width is 257, expected 1 to 256"
    );
    assert_eq!(
        wrong(|a| (a.heads, a.key_heads) = (4, 3)),
        "attention_query_ranges: 4 query heads and 3 key heads, expected a multiple of them"
    );
    assert_eq!(
        wrong(|a| a.window = Some(0)),
        "attention_query_ranges: window is 0, expected at least 1"
    );
    assert_eq!(
        wrong(|a| a.soft_cap = Some(0.0)),
        "attention_query_ranges: soft_cap is 0, expected a positive number"
    );
}
