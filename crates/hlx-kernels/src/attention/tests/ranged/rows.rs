//! A query's bits are its own: packed in a row, padded, from a cache, over views, as the packed kernels.

use super::*;
use crate::attention::plan::packed_kernels;
use crate::attention::tests::packed_passes;

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The rows of positions `range` of a `[B, L, heads, D]`.
fn part(values: &[f32], per_position: usize, range: std::ops::Range<usize>) -> Vec<f32> {
    values[range.start * per_position..range.end * per_position].to_vec()
}

/// Documents packed in a row have the bits that each has alone, forward and backward, though the others
/// hold infinities.
#[test]
fn packed_documents_have_the_bits_of_documents_alone() {
    let lengths = [5_u32, 37, 1, 33];
    let rules = [
        (false, None, None, true),
        (false, Some(7), Some(3.0), true),
        (false, None, None, false),
        (true, None, None, true),
        (true, Some(7), Some(3.0), true),
        (true, None, None, false),
    ];
    // The first is of floats and the next of integers.
    for (quantised, window, soft_cap, causal) in hlx_core::testing::cases(rules, 4) {
        let of_length = |n: usize| Attention {
            queries: n,
            keys: n,
            heads: 2,
            window,
            soft_cap,
            causal,
            ..PLAIN
        };
        let mut packed = case(of_length(76));
        packed.documents = Some(starts(&lengths));
        packed.quantised = quantised;
        // The second document's keys and values, and the gradient of its outputs.
        for values in [&mut packed.k, &mut packed.v] {
            values[5 * 8] = f32::INFINITY;
            values[6 * 8] = f32::NAN;
        }
        packed.d_o[2 * 9 * 8] = f32::INFINITY;
        let got = everywhere(&packed);
        let mut first = 0;
        for (document, &length) in lengths.iter().enumerate() {
            let range = first..first + length as usize;
            first = range.end;
            if document == 1 {
                continue;
            }
            let alone = Case {
                q: part(&packed.q, 16, range.clone()),
                k: part(&packed.k, 8, range.clone()),
                v: part(&packed.v, 8, range.clone()),
                d_o: part(&packed.d_o, 16, range.clone()),
                documents: None,
                attention: of_length(length as usize),
                ..packed.clone()
            };
            let alone = on_the_cpu(&alone);
            for (at, per_position) in [(0, 16), (2, 16), (3, 8), (4, 8)] {
                let packed = part(&got[at], per_position, range.clone());
                assert_eq!(
                    bits(&packed),
                    bits(&alone[at]),
                    "document {document}, output {at}"
                );
            }
        }
    }
}

/// A query computed from a cache, alone, has the bits of its row among all queries; what lies in the
/// cache past the row's length does not count.
#[test]
fn a_cached_query_has_the_bits_of_the_whole_row() {
    for quantised in [false, true] {
        cached_queries_are_those_of_the_row(quantised);
    }
}

fn cached_queries_are_those_of_the_row(quantised: bool) {
    let whole = Attention {
        queries: 70,
        keys: 70,
        heads: 4,
        key_heads: 2,
        causal: true,
        window: Some(45),
        soft_cap: Some(5.0),
        ..PLAIN
    };
    let all = Case {
        quantised,
        ..case(whole)
    };
    let want = on_the_cpu(&all);
    for position in [0, 31, 32, 64, 69] {
        let mut cached = Case {
            q: part(&all.q, 32, position..position + 1),
            d_o: part(&all.d_o, 32, position..position + 1),
            lengths: Some(vec![position as u32 + 1]),
            first_positions: Some(vec![position as u32]),
            attention: Attention {
                queries: 1,
                ..whole
            },
            ..all.clone()
        };
        cached.k[(position + 1) * 16..].fill(f32::NAN);
        cached.v[(position + 1) * 16..].fill(f32::INFINITY);
        let got = everywhere(&cached);
        let want = part(&want[0], 32, position..position + 1);
        assert_eq!(bits(&got[0]), bits(&want), "position {position}");
    }
}

/// Padding on the right with lengths, and in a batch, leaves no trace.
#[test]
fn padding_and_company_leave_no_trace() {
    for quantised in [false, true] {
        padding_leaves_no_trace(quantised);
    }
}

fn padding_leaves_no_trace(quantised: bool) {
    let of_length = |batch: usize, n: usize| Attention {
        batch,
        queries: n,
        keys: n,
        causal: true,
        ..PLAIN
    };
    let mut padded = case(of_length(2, 50));
    padded.lengths = Some(vec![50, 37]);
    padded.quantised = quantised;
    padded.first_positions = Some(vec![0, 0]);
    for values in [&mut padded.q, &mut padded.k, &mut padded.v, &mut padded.d_o] {
        values[(50 + 37) * 8..].fill(f32::NAN);
    }
    let got = everywhere(&padded);
    let range = 50..87;
    let alone = on_the_cpu(&Case {
        q: part(&padded.q, 8, range.clone()),
        k: part(&padded.k, 8, range.clone()),
        v: part(&padded.v, 8, range.clone()),
        d_o: part(&padded.d_o, 8, range.clone()),
        attention: of_length(1, 37),
        quantised,
        ..case(PLAIN)
    });
    for at in [0, 2, 3, 4] {
        assert_eq!(
            bits(&part(&got[at], 8, range.clone())),
            bits(&alone[at]),
            "output {at}"
        );
        assert!(
            got[at][87 * 8..]
                .iter()
                .all(|&padding| padding.to_bits() == 0),
            "output {at}"
        );
    }
}

/// A packed tensor, the upstream gradient of its attention, and the sizes of that attention.
struct Joint {
    attention: Attention,
    data: Vec<f32>,
    upstream: Vec<f32>,
}

impl Joint {
    fn new([batch, time, heads, width]: [usize; 4], dropout: Option<WeightDropout>) -> Self {
        let attention = Attention {
            dropout,
            ..Attention::causal([batch, time], heads, width)
        };
        let n = attention.output_len();
        Self {
            attention,
            data: normal(1, 3 * n),
            upstream: normal(2, n),
        }
    }

    /// o, stats and dqkv by the kernels for packed tensors.
    fn by_packed_kernels(
        &self,
        device: &Device,
        mem: &mut TestMemory,
    ) -> Result<Vec<Buffer>, KernelError> {
        let (qkv, d_o) = (
            &mem.input(device, &self.data)?,
            &mem.input(device, &self.upstream)?,
        );
        let counter = &mem.input_u32(device, &case(PLAIN).counter)?;
        let counter = self.attention.dropout.map(|_| counter);
        packed_passes(device, qkv, counter, &self.attention, d_o)
    }

    /// The outputs of [`both_passes`] over its three views.
    fn by_views(&self, device: &Device, mem: &mut TestMemory) -> Result<Vec<Buffer>, KernelError> {
        let (qkv, d_o) = (
            mem.input(device, &self.data)?,
            mem.input(device, &self.upstream)?,
        );
        let views = layouts_of_packed(&self.attention)?;
        let operands = views.each_ref().map(|layout| Operand {
            buffer: &qkv,
            layout,
        });
        both_passes(device, mem, operands, &d_o, &case(self.attention))
    }

    /// Fails unless the views' outputs are those of the packed tensor, bit by bit.
    fn assert_equal(&self, views: &[Vec<f32>], packed: &[Vec<f32>]) {
        let of = &self.attention;
        assert_eq!(bits(&views[0]), bits(&packed[0]), "o of {of:?}");
        assert_eq!(bits(&views[1]), bits(&packed[1]), "stats");
        let row = of.heads * of.head_width;
        for (which, gradient) in views[2..5].iter().enumerate() {
            let rows = packed[2].chunks(row).skip(which).step_by(3);
            let want: Vec<f32> = rows.flatten().copied().collect();
            assert_eq!(bits(gradient), bits(&want), "gradient {which}");
        }
    }
}

/// Causal attention over the three views of a packed tensor has the bits of the kernels for it.
#[test]
fn views_of_a_packed_tensor_have_the_bits_of_the_packed_kernels() {
    for sizes in [[2, 70, 2, 8], [2, 33, 1, 33], [2, 34, 1, 80]] {
        let packed = Joint::new(sizes, None);
        let device = hlx_core::testing::cpu().expect("the CPU device");
        let want = run_on("attention", &device, |device, mem| {
            packed.by_packed_kernels(device, mem)
        });
        let got = run_everywhere("ranged_attention", |device, mem| {
            packed.by_views(device, mem)
        });
        packed.assert_equal(&got, &want);
    }
}

/// Where weights are dropped, the packed kernels of GPUs have the bits of the CPU's attention over the
/// views.
#[test]
fn packed_kernels_drop_the_weights_that_views_drop() {
    let dropout = WeightDropout {
        p: 0.3,
        seed: 0x1234_5678_9abc,
        purpose: 77,
    };
    for sizes in [[2, 70, 2, 8], [2, 33, 1, 33], [1, 130, 3, 64]] {
        let packed = Joint::new(sizes, Some(dropout));
        let cpu = hlx_core::testing::cpu().expect("the CPU device");
        let want = run_on("ranged_attention", &cpu, |device, mem| {
            packed.by_views(device, mem)
        });
        assert!(want[0].iter().all(|value| value.is_finite()));
        assert!(packed_kernels(&cpu, &packed.attention).is_none());
        for device in hlx_core::testing::own_devices() {
            if packed_kernels(&device, &packed.attention).is_some() {
                let name = "dropped_attention";
                let got = run_on(name, &device, |device, mem| {
                    packed.by_packed_kernels(device, mem)
                });
                packed.assert_equal(&want, &got);
            }
        }
    }
}

/// Behind a sequence whose later queries have no gradient, as behind padding without lengths, nothing changes.
#[test]
fn queries_without_a_gradient_leave_no_trace() {
    for quantised in [false, true] {
        let causal = |n: usize| Attention {
            queries: n,
            keys: n,
            causal: true,
            ..PLAIN
        };
        let mut longer = case(causal(45));
        longer.d_o[29 * 8..].fill(0.0);
        longer.quantised = quantised;
        let got = everywhere(&longer);
        let range = 0..29;
        let alone = on_the_cpu(&Case {
            q: part(&longer.q, 8, range.clone()),
            k: part(&longer.k, 8, range.clone()),
            v: part(&longer.v, 8, range.clone()),
            d_o: part(&longer.d_o, 8, range.clone()),
            attention: causal(29),
            quantised,
            ..case(PLAIN)
        });
        for at in [0, 2, 3, 4] {
            let part = part(&got[at], 8, range.clone());
            assert_eq!(bits(&part), bits(&alone[at]), "output {at} {quantised}");
        }
    }
}
