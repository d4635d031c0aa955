//! Attention over operands of 16 bits, on every device that computes in `fast`, against f64.

use hlx_core::Half;

use super::*;
use crate::testing::devices_in_fast;

/// o, dq, dk, dv.
fn both(device: &Device, case: &Case) -> Result<[Vec<f32>; 4], KernelError> {
    let mut mem = TestMemory::default();
    let of = &case.attention;
    let [of_queries, of_keys] = &of.layouts()?;
    let [q, k, v, d_o] = [&case.q, &case.k, &case.v, &case.d_o].map(|x| mem.input(device, x));
    let (q, k, v, d_o) = (&q?, &k?, &v?, &d_o?);
    let mut ids = |ids: &Option<Vec<u32>>| {
        let ids = ids.as_ref().map(|ids| mem.input_u32(device, ids));
        ids.transpose()
    };
    let (documents, lengths) = (ids(&case.documents)?, ids(&case.lengths)?);
    let first_positions = ids(&case.first_positions)?;
    let counter = mem.input_u32(device, &case.counter)?;
    let operands = AttentionOperands {
        heads: [
            Operand::new(q, of_queries),
            Operand::new(k, of_keys),
            Operand::new(v, of_keys),
        ],
        packed: None,
        limits: Limits {
            documents: documents.as_ref(),
            lengths: lengths.as_ref(),
            first_positions: first_positions.as_ref(),
        },
        counter: of.dropout.map(|_| &counter),
    };
    let chosen = Schedule::of(device, &operands, of);
    assert_eq!(chosen, Schedule::Halves, "{}", device.info());
    let prepared = PreparedAttention::new(device, &operands, of, true)?;
    let [o, stats] = &prepared.forward(device, &operands)?;
    let output = AttentionOutput { o, stats, d_o };
    let gradients = prepared.backward(device, &operands, &output)?;
    let [dq, dk, dv] = [0, 1, 2].map(|i| device.download::<f32>(&gradients[i]));
    let found = [device.download::<f32>(o)?, dq?, dk?, dv?];
    mem.check_fences("half_attention", device)?;
    Ok(found)
}

/// The part of what is expected that the errors are, by their squares; of numbers that cancel each other, of their terms.
fn relative_error(got: &[f32], want: &[f64]) -> f64 {
    let error = got.iter().zip(want);
    let error: f64 = error
        .map(|(&got, want)| (f64::from(got) - want).powi(2))
        .sum();
    let size: f64 = want.iter().map(|want| want * want).sum();
    (error / size.max(0.1 * want.len() as f64)).sqrt()
}

/// Wider heads and longer sequences than those of all kernels: several blocks, tiles and slices, and rows of no whole unit.
fn wide_cases() -> Vec<(&'static str, Case)> {
    let of = |head_width: usize, positions: usize, group: usize| Attention {
        batch: 2,
        queries: positions,
        keys: positions,
        heads: 2 * group,
        key_heads: 2,
        head_width,
        scale: default_scale(head_width),
        causal: true,
        ..PLAIN
    };
    vec![
        ("a head of 13 columns", case(of(13, 70, 1))),
        ("a head of 24 columns", case(of(24, 45, 2))),
        ("a head of 64 columns", case(of(64, 200, 1))),
        ("a head of 80 columns", case(of(80, 66, 1))),
        ("a head of 128 columns", case(of(128, 131, 2))),
    ]
}

#[test]
fn it_agrees_with_f64_in_16_bits() {
    // Half of the distance of neighbours, from products of up to three rounded factors each.
    for (half, limit) in [(Half::Bf16, 0.012), (Half::F16, 0.0015)] {
        for device in devices_in_fast(half) {
            let all = cases().into_iter().chain(wide_cases());
            for (name, case) in all.filter(|(_, case)| case.attention.head_width <= 128) {
                let got = both(&device, &case).expect("both passes");
                for ((what, got), want) in ["o", "dq", "dk", "dv"]
                    .iter()
                    .zip(&got)
                    .zip(case.reference())
                {
                    let error = relative_error(got, &want);
                    assert!(
                        error <= limit,
                        "{}, {half:?}: {name}: {what}: an error of {error:e}",
                        device.info()
                    );
                }
            }
        }
    }
}

/// A sample's results are those that it has by itself: they depend on neither the batch nor what runs beside them.
#[test]
fn a_sample_has_the_bits_that_it_has_alone() {
    let of = Attention {
        batch: 3,
        queries: 70,
        keys: 70,
        heads: 2,
        key_heads: 2,
        head_width: 32,
        causal: true,
        ..PLAIN
    };
    for half in [Half::Bf16, Half::F16] {
        for device in devices_in_fast(half) {
            let all = case(of);
            let joint = both(&device, &all).expect("both passes");
            let one = of.output_len() / 3;
            for sample in 0..3 {
                let part = |x: &[f32]| x[sample * one..][..one].to_vec();
                let alone = Case {
                    q: part(&all.q),
                    k: part(&all.k),
                    v: part(&all.v),
                    d_o: part(&all.d_o),
                    ..case(Attention { batch: 1, ..of })
                };
                let alone = both(&device, &alone).expect("both passes");
                for (alone, joint) in alone.iter().zip(&joint) {
                    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(alone), bits(&part(joint)), "{}", device.info());
                }
            }
        }
    }
}
