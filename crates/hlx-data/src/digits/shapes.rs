//! The digits' strokes, written by hand: points in a box from (-50, -70) to (50, 70), y down.

/// The height of the box.
pub(super) const HEIGHT: i32 = 140;

/// A line through points ([`super::raster::Canvas::stroke`]).
pub(super) struct Stroke {
    pub points: &'static [(i8, i8)],
    pub closed: bool,
}

/// The ways to write a digit from 0 to 9, the one for captions first.
pub(super) fn variants(digit: usize) -> &'static [&'static [Stroke]] {
    DIGITS[digit]
}

const fn open(points: &'static [(i8, i8)]) -> Stroke {
    Stroke {
        points,
        closed: false,
    }
}

const fn closed(points: &'static [(i8, i8)]) -> Stroke {
    Stroke {
        points,
        closed: true,
    }
}

const DIGITS: [&[&[Stroke]]; 10] = [ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT, NINE];

const ZERO: &[&[Stroke]] = &[
    &[closed(&[
        (-22, -76),
        (-52, -40),
        (-52, 40),
        (-22, 78),
        (22, 78),
        (52, 40),
        (52, -40),
        (22, -76),
    ])],
    // Begun at the upper right, its ends crossing.
    &[open(&[
        (14, -70),
        (-40, -74),
        (-58, 20),
        (-30, 80),
        (30, 80),
        (54, 0),
        (30, -80),
        (-16, -62),
    ])],
];

const ONE: &[&[Stroke]] = &[
    &[open(&[(-26, -44), (4, -70), (4, -70), (4, 70)])],
    &[open(&[(0, -70), (0, 70)])],
    &[
        open(&[(-28, -40), (2, -70), (2, -70), (2, 70)]),
        open(&[(-30, 70), (32, 70)]),
    ],
];

const TWO: &[&[Stroke]] = &[
    &[open(&[
        (-42, -36),
        (-42, -76),
        (44, -80),
        (48, -14),
        (4, 24),
        (-46, 70),
        (-46, 70),
        (48, 70),
    ])],
    // With a loop at the lower left.
    &[open(&[
        (-42, -40),
        (-34, -80),
        (46, -76),
        (44, -8),
        (-6, 66),
        (-54, 72),
        (-46, 24),
        (2, 58),
        (50, 68),
    ])],
];

const THREE: &[&[Stroke]] = &[
    &[open(&[
        (-42, -52),
        (-16, -82),
        (50, -70),
        (44, -10),
        (-10, -4),
        (-10, -4),
        (54, 0),
        (54, 72),
        (-16, 78),
        (-46, 50),
    ])],
    // With a flat top.
    &[open(&[
        (-42, -68),
        (44, -68),
        (44, -68),
        (-4, -12),
        (-4, -12),
        (54, -10),
        (54, 74),
        (-20, 78),
        (-48, 52),
    ])],
];

const FOUR: &[&[Stroke]] = &[
    &[open(&[
        (22, 70),
        (22, -70),
        (22, -70),
        (-48, 24),
        (-48, 24),
        (50, 24),
    ])],
    // Open at the top.
    &[
        open(&[(-30, -66), (-44, 10), (-44, 10), (48, 8)]),
        open(&[(26, -44), (20, 70)]),
    ],
];

const FIVE: &[&[Stroke]] = &[
    &[open(&[
        (42, -70),
        (-32, -70),
        (-32, -70),
        (-38, -8),
        (-38, -8),
        (14, -36),
        (58, 10),
        (44, 78),
        (-18, 82),
        (-46, 54),
    ])],
    // The bar apart.
    &[
        open(&[
            (-28, -62),
            (-36, -6),
            (-36, -6),
            (16, -30),
            (56, 14),
            (40, 78),
            (-20, 80),
            (-46, 52),
        ]),
        open(&[(-28, -62), (46, -70)]),
    ],
];

const SIX: &[&[Stroke]] = &[
    &[open(&[
        (34, -68),
        (-24, -66),
        (-54, 16),
        (-42, 80),
        (30, 80),
        (54, 34),
        (26, -10),
        (-28, 0),
        (-44, 40),
    ])],
    // A straighter stem.
    &[open(&[
        (16, -70),
        (-30, -20),
        (-50, 50),
        (-20, 82),
        (38, 76),
        (44, 14),
        (-6, 4),
        (-40, 46),
    ])],
];

const SEVEN: &[&[Stroke]] = &[
    &[open(&[(-44, -66), (46, -66), (46, -66), (4, 0), (-14, 70)])],
    // With a bar.
    &[
        open(&[(-44, -64), (46, -66), (46, -66), (6, 0), (-12, 70)]),
        open(&[(-20, 4), (38, 0)]),
    ],
];

const EIGHT: &[&[Stroke]] = &[
    &[closed(&[
        (34, -76),
        (-34, -76),
        (-50, -34),
        (-6, -8),
        (50, 22),
        (44, 80),
        (-44, 80),
        (-50, 22),
        (6, -8),
        (50, -34),
    ])],
    // Two rings.
    &[
        closed(&[(-28, -74), (28, -74), (36, -34), (0, -4), (-36, -34)]),
        closed(&[(0, -8), (42, 22), (38, 78), (-38, 78), (-42, 22)]),
    ],
];

const NINE: &[&[Stroke]] = &[
    &[open(&[
        (40, -44),
        (24, -82),
        (-40, -78),
        (-54, -18),
        (-4, 10),
        (42, -20),
        (42, -44),
        (42, -44),
        (40, 20),
        (20, 70),
    ])],
    // With a tail to the left.
    &[open(&[
        (40, -44),
        (20, -80),
        (-42, -74),
        (-50, -14),
        (2, 6),
        (40, -24),
        (40, -44),
        (44, 40),
        (28, 82),
        (-36, 64),
    ])],
];
