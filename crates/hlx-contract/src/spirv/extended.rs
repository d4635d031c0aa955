//! The instructions of GLSL.std.450 that contracts may use.
//!
//! "SPIR-V Extended Instructions for GLSL", by their numbers.

/// What a GLSL.std.450 instruction works on.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Float,
    /// Floats of 32 bits.
    Single,
    Int,
    PackHalf,
    UnpackHalf,
}

/// The number of operands of a GLSL.std.450 instruction and their kind.
pub(super) fn extended_row(number: u32) -> Option<(usize, Kind)> {
    Some(match number {
        1..=4 | 6 | 8..=10 | 31 | 32 => (1, Kind::Float),
        11..=24 | 27..=30 => (1, Kind::Single),
        25 | 26 => (2, Kind::Single),
        37 | 40 | 48 | 79 | 80 => (2, Kind::Float),
        43 | 46 | 49 | 50 | 81 => (3, Kind::Float),
        5 | 7 | 73..=75 => (1, Kind::Int),
        38 | 39 | 41 | 42 => (2, Kind::Int),
        44 | 45 => (3, Kind::Int),
        58 => (1, Kind::PackHalf),
        62 => (1, Kind::UnpackHalf),
        _ => return None,
    })
}
