//! The shaders of attention, and which one a launch takes.
//!
//! All for floats give the same bits, and all for quantised operands: tiles change who computes an element, never the order in
//! which its terms are added.

use hlx_core::{Device, IntegerPath, MatrixShape, Shader};

use super::sizes::{Attention, Placed};
use crate::tuning::KernelTuning;

shader!(attention::{
    forward_32, forward_64, forward_64_dropped as forward_dropped, backward_delta, backward_query_stored,
    backward_key_value_32, backward_key_value_cached, backward_key_value_cached_dropped as
    key_value_dropped, ranged_forward_64, ranged_forward_128, ranged_forward_256, integer_forward,
    integer_forward_dots, integer_forward_matrices, integer_forward_matrices_words,
    ranged_backward_query_64, ranged_backward_query_128, ranged_backward_query_256,
    integer_backward_query, integer_backward_query_dots, integer_backward_query_matrices,
    integer_backward_query_matrices_words, ranged_backward_key_value_64, ranged_backward_key_value_128,
    ranged_backward_key_value_256, integer_backward_key_value, integer_backward_key_value_dots,
    integer_backward_key_value_matrices, integer_backward_key_value_matrices_words,
    half_forward_matrices_bf16, half_forward_matrices_f16, half_backward_query_matrices_bf16,
    half_backward_query_matrices_f16, half_backward_key_value_matrices_bf16, half_backward_key_value_matrices_f16,
});

/// A shader of packed causal attention, and what it takes.
#[derive(Debug)]
pub struct Variant {
    pub shader: &'static Shader,
    /// Queries, or keys, of one workgroup.
    pub rows: usize,
    /// The widest head.
    pub width: usize,
    /// Shared memory of a workgroup, at the widest head.
    pub shared_bytes: u32,
    /// Whether the next variant is better where this one's workgroups do not fill the device.
    pub fills: bool,
}

/// A shader's name, the rows of a workgroup and the widest head, and the other fields in their order.
macro_rules! variant {
    ($module:ident, [$rows:literal, $width:literal], $shared_bytes:literal, $fills:literal) => {
        Variant {
            shader: &$module::SHADER,
            rows: $rows,
            width: $width,
            shared_bytes: $shared_bytes,
            fills: $fills,
        }
    };
}

/// A kernel's variants, the one for most work first; the last runs every shape on every device.
pub static FORWARD: [Variant; 3] = [
    variant!(forward_64, [64, 64], 16_384, true),
    variant!(forward_32, [32, 64], 29_696, false),
    variant!(forward_64, [64, 64], 16_384, false),
];
/// The backward that keeps ds: dK and dV, which store it, then dQ.
pub static STORED_KEY_VALUE: [Variant; 3] = [
    variant!(backward_key_value_cached, [32, 64], 24_576, true),
    variant!(backward_key_value_32, [32, 64], 40_960, false),
    variant!(backward_key_value_cached, [32, 64], 24_576, false),
];
pub static STORED_QUERY: Variant = variant!(backward_query_stored, [128, 64], 12_288, false);
/// Where weights are dropped.
pub static DROPPED_FORWARD: Variant = variant!(forward_dropped, [64, 64], 16_384, false);
pub static DROPPED_KEY_VALUE: Variant = variant!(key_value_dropped, [32, 64], 25_600, false);
/// Delta's shader, and the rows of `[B, T, H, D]` of one workgroup.
pub static DELTA: (&Shader, usize) = (&backward_delta::SHADER, 32);

impl Variant {
    /// Workgroups that carry out `heads` heads.
    pub fn groups(&self, attention: &Attention, heads: usize) -> usize {
        heads * attention.queries.div_ceil(self.rows)
    }
}

/// The shaders of a pass over ranges.
pub struct PassShaders {
    /// Of floats: for heads of at most 64, 128 and 256 columns, with the rows of a workgroup.
    floats: [(&'static Shader, usize); 3],
    /// For quantised operands: plain, by dot products, by matrices, and by matrices of less than 16 terms.
    quantised: [&'static Shader; 4],
}

macro_rules! pass {
    ([$(($floats:ident, $rows:literal)),*], [$($quantised:ident),*]) => {
        PassShaders {
            floats: [$((&$floats::SHADER, $rows)),*],
            quantised: [$(&$quantised::SHADER),*],
        }
    };
}

/// Queries, or keys, of a workgroup for quantised operands.
const ROWS: usize = 32;
/// Terms of a block's products.
const BLOCK: usize = 32;
/// Columns of a workgroup's result for quantised operands, and by matrices of heads that are wider than that.
const COLUMNS: usize = 64;
const COLUMNS_OF_WIDE: usize = 2 * COLUMNS;
/// Subgroups of a workgroup that multiplies matrices.
pub const SUBGROUPS: u32 = 4;

pub const FORWARD_PASS: PassShaders = pass! {
    [(ranged_forward_64, 64), (ranged_forward_128, 64), (ranged_forward_256, 32)],
    [integer_forward, integer_forward_dots, integer_forward_matrices, integer_forward_matrices_words]
};
pub const QUERY_PASS: PassShaders = pass! {
    [(ranged_backward_query_64, 64), (ranged_backward_query_128, 64), (ranged_backward_query_256, 32)],
    [
        integer_backward_query, integer_backward_query_dots, integer_backward_query_matrices,
        integer_backward_query_matrices_words
    ]
};
pub const KEY_VALUE_PASS: PassShaders = pass! {
    [
        (ranged_backward_key_value_64, 32), (ranged_backward_key_value_128, 32),
        (ranged_backward_key_value_256, 32)
    ],
    [
        integer_backward_key_value, integer_backward_key_value_dots,
        integer_backward_key_value_matrices, integer_backward_key_value_matrices_words
    ]
};

/// The shaders of operands of 16 bits, of bf16 and of f16.
pub struct HalfPasses {
    pub forward: [&'static Shader; 2],
    pub query: [&'static Shader; 2],
    pub key_value: [&'static Shader; 2],
}

pub const HALF_PASSES: HalfPasses = HalfPasses {
    forward: [
        &half_forward_matrices_bf16::SHADER,
        &half_forward_matrices_f16::SHADER,
    ],
    query: [
        &half_backward_query_matrices_bf16::SHADER,
        &half_backward_query_matrices_f16::SHADER,
    ],
    key_value: [
        &half_backward_key_value_matrices_bf16::SHADER,
        &half_backward_key_value_matrices_f16::SHADER,
    ],
};

/// A shader with its constants, the rows of a workgroup and the parts of a head's width.
pub struct Chosen {
    pub shader: &'static Shader,
    pub constants: Vec<(u32, u32)>,
    rows: usize,
    chunks: usize,
}

impl Chosen {
    /// Workgroups of `rows` queries, or keys, of each of `heads` heads.
    pub fn groups(&self, rows: usize, heads: usize) -> usize {
        rows.div_ceil(self.rows) * self.chunks * heads
    }
}

impl PassShaders {
    pub fn of_floats(&self, placed: &Placed) -> Chosen {
        let (shader, rows) = match placed.attention.head_width {
            0..=64 => self.floats[0],
            65..=128 => self.floats[1],
            _ => self.floats[2],
        };
        Chosen {
            shader,
            constants: placed.constants().to_vec(),
            rows,
            chunks: 1,
        }
    }

    pub fn of_quantised(&self, device: &Device, placed: &Placed) -> Chosen {
        let [plain, dots, matrices, words] = self.quantised;
        let width = placed.attention.head_width;
        let mut chosen = Chosen {
            shader: plain,
            constants: placed.constants().to_vec(),
            rows: ROWS,
            chunks: width.div_ceil(COLUMNS),
        };
        match KernelTuning::of(device).products.integers {
            IntegerPath::Dots => chosen.shader = dots,
            IntegerPath::Matrices(shape) if fits(shape) => {
                chosen.shader = if shape.is_narrow() { words } else { matrices };
                chosen.constants.extend(shape.specialization(SUBGROUPS));
                if width > COLUMNS {
                    chosen.chunks = width.div_ceil(COLUMNS_OF_WIDE);
                }
            }
            _ => {}
        }
        chosen
    }
}

/// Whether matrices divide a subgroup's quarter of a block, and a row's threads have four columns each or more.
const fn fits(shape: MatrixShape) -> bool {
    let threads = (SUBGROUPS * shape.subgroup) as usize;
    (ROWS as u32 / 2).is_multiple_of(shape.rows)
        && (BLOCK as u32 / 2).is_multiple_of(shape.columns)
        && (BLOCK as u32).is_multiple_of(shape.terms)
        && threads.is_multiple_of(ROWS)
        && threads <= BLOCK / 4 * ROWS
}
