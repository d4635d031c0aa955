//! The backward that stores weights has the bits of the one that computes them twice, and so the CPU's.

use super::*;
use crate::attention::plan::{OF_BACKWARD, key_heads_at_a_time};
use crate::testing::{devices, run_on_each};
use crate::tuning::KernelTuning;

/// Two key heads, three query heads each, over rows longer than a workgroup's.
const LONG: Attention = Attention {
    queries: 132,
    keys: 132,
    heads: 6,
    key_heads: 2,
    causal: true,
    ..PLAIN
};

fn long_cases() -> Vec<(&'static str, Case)> {
    let dropout = Some(WeightDropout {
        p: 0.3,
        seed: 0x1234_5678_9abc,
        purpose: 9,
    });
    let one_head = Attention {
        heads: 1,
        key_heads: 1,
        ..LONG
    };
    vec![
        ("causal", case(Attention { batch: 2, ..LONG })),
        (
            "causal, wide heads",
            case(Attention {
                queries: 164,
                keys: 164,
                heads: 2,
                head_width: 68,
                ..LONG
            }),
        ),
        (
            "every key, two parts of a head's width",
            case(Attention {
                queries: 68,
                head_width: 76,
                causal: false,
                ..one_head
            }),
        ),
        (
            "dropped weights of documents",
            Case {
                documents: Some([starts(&[30, 51, 1, 50]), starts(&[132])].concat()),
                ..case(Attention {
                    batch: 2,
                    dropout,
                    head_width: 72,
                    ..one_head
                })
            },
        ),
        (
            "all rules",
            Case {
                documents: Some([starts(&[7, 33, 112]), starts(&[40, 112])].concat()),
                lengths: Some(vec![145, 150]),
                first_positions: Some(vec![40, 3]),
                ..case(Attention {
                    batch: 2,
                    queries: 104,
                    keys: 152,
                    heads: 2,
                    head_width: 68,
                    soft_cap: Some(2.0),
                    window: Some(61),
                    dropout,
                    ..one_head
                })
            },
        ),
    ]
}

/// The devices, those with stored weights once more with one key head at a time.
fn devices_of(case: &Case) -> Vec<Device> {
    let mut each = Vec::new();
    for device in devices() {
        each.push(device.clone());
        if device.is_cpu() {
            continue;
        }
        let attention = &case.attention;
        let group = attention.heads / attention.key_heads;
        let mut tuning = KernelTuning::of(device).clone();
        tuning.attention.stored_bytes = (12 * group * attention.queries * attention.keys) as u64;
        each.push(tuning.on(device).expect("a valid tuning"));
    }
    each
}

#[test]
fn stored_weights_keep_the_bits_and_agree_with_f64() {
    for (name, case) in hlx_core::testing::cases(long_cases(), 4) {
        let devices = devices_of(&case);
        let got = run_on_each(name, &devices, |device, mem| on(device, mem, &case));
        assert_agrees(name, &case, &got);
    }
}

#[test]
fn stored_weights_keep_the_bits_of_awkward_values() {
    for (name, mut case) in long_cases().into_iter().take(1) {
        case.attention.batch = 1;
        let lens = [case.attention.output_len(), case.attention.key_len()];
        (case.q, case.d_o) = (values(5, lens[0]), values(6, lens[0]));
        (case.k, case.v) = (values(7, lens[1]), values(8, lens[1]));
        run_on_each(name, &devices_of(&case), |device, mem| {
            on(device, mem, &case)
        });
    }
}

#[test]
fn the_weights_of_as_many_heads_are_stored_as_memory_allows() {
    for device in devices() {
        let heads = |attention: &Attention, stored_bytes: u64| {
            let mut tuning = KernelTuning::of(device).clone();
            tuning.attention.stored_bytes = stored_bytes;
            let device = tuning.on(device).expect("a valid tuning");
            key_heads_at_a_time(&device, &attention.contiguous(), OF_BACKWARD)
        };
        let of_one = 3 * 4 * 3 * 132 * 132;
        let attention = Attention { batch: 4, ..LONG };
        if device.is_cpu() {
            assert_eq!(heads(&attention, u64::MAX), None);
            continue;
        }
        assert_eq!(heads(&attention, of_one - 1), None);
        assert_eq!(heads(&attention, of_one), Some(1));
        assert_eq!(heads(&attention, 4 * 5 * of_one), Some(4));
        assert_eq!(heads(&attention, 4 * 8 * of_one), Some(8));
        let odd = Attention {
            queries: 131,
            ..attention
        };
        let short = Attention {
            queries: 60,
            ..attention
        };
        let narrow = Attention {
            head_width: 6,
            ..attention
        };
        for other in [odd, short, narrow] {
            assert_eq!(heads(&other, 1 << 30), None, "{other:?}");
        }
    }
}
