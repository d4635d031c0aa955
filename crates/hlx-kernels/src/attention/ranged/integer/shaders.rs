//! The shaders of attention over integers, and which one a device takes.

use hlx_core::{Device, IntegerPath, MatrixShape, Shader};

use super::super::sizes::Placed;
use crate::tuning::KernelTuning;

shader!(forward, attention::integer_forward);
shader!(forward_dots, attention::integer_forward_dots);
shader!(forward_matrices, attention::integer_forward_matrices);
shader!(forward_narrow, attention::integer_forward_matrices_words);
shader!(query, attention::integer_backward_query);
shader!(query_dots, attention::integer_backward_query_dots);
shader!(query_matrices, attention::integer_backward_query_matrices);
shader!(
    query_narrow,
    attention::integer_backward_query_matrices_words
);
shader!(key_value, attention::integer_backward_key_value);
shader!(key_value_dots, attention::integer_backward_key_value_dots);
shader!(
    key_value_matrices,
    attention::integer_backward_key_value_matrices
);
shader!(
    key_value_narrow,
    attention::integer_backward_key_value_matrices_words
);

/// Subgroups of a workgroup that multiplies matrices.
const SUBGROUPS: u32 = 4;
/// Rows of a workgroup: queries of the forward pass and of dQ, keys of dK and dV.
const ROWS: u32 = 32;
/// Terms of a block's products.
const BLOCK: u32 = 32;

/// A pass.
pub struct Pass {
    /// In plain integers, by dot products, by matrices, and by matrices of less than 16 terms.
    shaders: [&'static Shader; 4],
    /// Columns of a workgroup's result: of heads that are wider than 64, by matrices.
    columns_of_wide: usize,
}

/// Columns of a workgroup's result elsewhere.
const COLUMNS: usize = 64;

pub const FORWARD: Pass = Pass {
    shaders: [
        &forward::SHADER,
        &forward_dots::SHADER,
        &forward_matrices::SHADER,
        &forward_narrow::SHADER,
    ],
    columns_of_wide: 2 * COLUMNS,
};
pub const QUERY: Pass = Pass {
    shaders: [
        &query::SHADER,
        &query_dots::SHADER,
        &query_matrices::SHADER,
        &query_narrow::SHADER,
    ],
    columns_of_wide: 2 * COLUMNS,
};
pub const KEY_VALUE: Pass = Pass {
    shaders: [
        &key_value::SHADER,
        &key_value_dots::SHADER,
        &key_value_matrices::SHADER,
        &key_value_narrow::SHADER,
    ],
    columns_of_wide: COLUMNS,
};

/// A shader with its constants, and its workgroups for the columns of a tile of rows.
pub struct Chosen {
    pub shader: &'static Shader,
    pub constants: Vec<(u32, u32)>,
    chunks: usize,
}

impl Pass {
    pub fn choose(&self, device: &Device, placed: &Placed) -> Chosen {
        let [plain, dots, of_matrices, narrow] = self.shaders;
        let path = KernelTuning::of(device).products.integers;
        let width = placed.attention.head_width;
        let mut chosen = Chosen {
            shader: match path {
                IntegerPath::Dots => dots,
                _ => plain,
            },
            constants: placed.constants().to_vec(),
            chunks: width.div_ceil(COLUMNS),
        };
        if let IntegerPath::Matrices(shape) = path
            && fits(shape)
        {
            chosen.shader = match shape.is_narrow() {
                true => narrow,
                false => of_matrices,
            };
            chosen.constants.extend(shape.specialization(SUBGROUPS));
            if width > COLUMNS {
                chosen.chunks = width.div_ceil(self.columns_of_wide);
            }
        }
        chosen
    }
}

impl Chosen {
    /// Workgroups of `heads` heads with so many rows.
    pub fn groups(&self, rows: usize, heads: usize) -> usize {
        rows.div_ceil(ROWS as usize) * self.chunks * heads
    }
}

/// Whether matrices divide a subgroup's quarter of a block, and a row's threads have four columns each or more.
const fn fits(shape: MatrixShape) -> bool {
    (ROWS / 2).is_multiple_of(shape.rows)
        && (BLOCK / 2).is_multiple_of(shape.columns)
        && BLOCK.is_multiple_of(shape.terms)
        && (SUBGROUPS * shape.subgroup).is_multiple_of(ROWS)
        && SUBGROUPS * shape.subgroup <= BLOCK / 4 * ROWS
}
