//! The cases of attention: every rule of what a query sees, for every set of kernels.

use hlx_kernels::attention::{Attention, WeightDropout, default_scale};

use crate::attention::{Case, Kernels};

const PLAIN: Attention = Attention {
    batch: 1,
    queries: 34,
    keys: 34,
    heads: 1,
    key_heads: 1,
    head_width: 80,
    scale: 0.11,
    soft_cap: None,
    dropout: None,
    causal: true,
    window: None,
};

const DROPOUT: Option<WeightDropout> = Some(WeightDropout {
    p: 0.3,
    seed: 0x1234_5678_9abc,
    purpose: 9,
});

/// Every case, as a name and what runs it.
pub fn cases() -> Vec<(&'static str, Case)> {
    let square = |n: usize, head_width: usize| Attention {
        queries: n,
        keys: n,
        head_width,
        scale: default_scale(head_width),
        ..PLAIN
    };
    let case = Case::new;
    let documents = |n: &[u32]| {
        let mut first = 0;
        n.iter()
            .flat_map(|&n| {
                first += n;
                vec![first - n; n as usize]
            })
            .collect::<Vec<u32>>()
    };
    let ranged = |kernels| {
        let windows = Attention {
            window: Some(9),
            ..square(40, 16)
        };
        vec![
            ("causal, 16 columns", case(kernels, square(40, 16), 33)),
            ("a window", case(kernels, windows, 33)),
            (
                "both sides of a window, a cap",
                case(
                    kernels,
                    Attention {
                        causal: false,
                        soft_cap: Some(0.7),
                        ..windows
                    },
                    20,
                ),
            ),
            (
                "documents, grouped heads",
                Case {
                    documents: Some([documents(&[3, 20, 1, 22]), documents(&[46])].concat()),
                    ..case(
                        kernels,
                        Attention {
                            batch: 2,
                            heads: 2,
                            ..square(46, 16)
                        },
                        23,
                    )
                },
            ),
            (
                "lengths",
                Case {
                    lengths: Some(vec![4, 37]),
                    first_positions: Some(vec![0, 0]),
                    ..case(
                        kernels,
                        Attention {
                            batch: 2,
                            ..square(40, 33)
                        },
                        33,
                    )
                },
            ),
            (
                "dropped weights",
                case(
                    kernels,
                    Attention {
                        dropout: DROPOUT,
                        ..square(40, 16)
                    },
                    33,
                ),
            ),
            ("causal, 80 columns", case(kernels, square(34, 80), 33)),
            ("causal, 132 columns", case(kernels, square(34, 132), 33)),
            (
                "stored, a window, documents",
                Case {
                    documents: Some(documents(&[40, 28])),
                    ..case(
                        kernels,
                        Attention {
                            window: Some(21),
                            ..square(68, 16)
                        },
                        45,
                    )
                },
            ),
            ("stored, causal", case(kernels, square(68, 132), 33)),
        ]
    };
    let cache = |kernels| {
        vec![(
            "a cache",
            Case {
                lengths: Some(vec![4, 40]),
                first_positions: Some(vec![2, 38]),
                ..case(
                    kernels,
                    Attention {
                        batch: 2,
                        queries: 2,
                        keys: 44,
                        heads: 2,
                        ..square(44, 16)
                    },
                    1,
                )
            },
        )]
    };
    let packed = Kernels::Packed;
    let dropped = |n, width| Attention {
        dropout: DROPOUT,
        ..square(n, width)
    };
    let mut all = vec![
        ("packed, 16 columns", case(packed, square(66, 16), 33)),
        ("packed, 80 columns", case(packed, square(34, 80), 33)),
        ("packed, 33 columns", case(packed, square(34, 33), 20)),
        (
            "packed, dropped, 16 columns",
            case(packed, dropped(34, 16), 20),
        ),
        (
            "packed, dropped, 80 columns",
            case(packed, dropped(34, 80), 33),
        ),
    ];
    all.extend(ranged(Kernels::Ranged));
    let quantised = ranged(Kernels::Quantised).into_iter();
    // Their kernels have one tile for every width.
    let stored_or_wide = |name: &str| name.starts_with("stored") || name.ends_with("132 columns");
    all.extend(quantised.filter(|(name, _)| !stored_or_wide(name)));
    all.extend(cache(Kernels::Ranged));
    all.extend(cache(Kernels::FewQueries));
    all.extend(cache(Kernels::Quantised));
    all.extend(cache(Kernels::Cached));
    all
}
