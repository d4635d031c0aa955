//! The shaders of attention over integers, and which one a device takes.

use hlx_core::{Context, IntegerPath, MatrixShape, Shader};

use super::super::sizes::RangedAttention;

shader!(forward, "attention/integer_forward");
shader!(forward_matrices, "attention/integer_forward_matrices");
shader!(forward_narrow, "attention/integer_forward_matrices_words");
shader!(query, "attention/integer_backward_query");
shader!(query_matrices, "attention/integer_backward_query_matrices");
shader!(
    query_narrow,
    "attention/integer_backward_query_matrices_words"
);
shader!(key_value, "attention/integer_backward_key_value");
shader!(
    key_value_matrices,
    "attention/integer_backward_key_value_matrices"
);
shader!(
    key_value_narrow,
    "attention/integer_backward_key_value_matrices_words"
);

pub use forward::Push;

/// Columns of the result of a workgroup.
const COLUMNS: usize = 64;
/// Of a workgroup that multiplies matrices, which has as many rows as threads.
const SUBGROUPS: u32 = 1;
/// Rows of a workgroup without matrices: queries of the forward pass and of dQ, keys of dK and dV.
const PLAIN_ROWS: usize = 32;
/// Columns of a block, which matrices divide.
const BLOCK: u32 = 32;

/// The shaders of a pass: in plain integers, by matrices, and by matrices of less than 16 terms.
pub struct Pass([&'static Shader; 3]);

pub const FORWARD: Pass = Pass([
    &forward::SHADER,
    &forward_matrices::SHADER,
    &forward_narrow::SHADER,
]);
pub const QUERY: Pass = Pass([
    &query::SHADER,
    &query_matrices::SHADER,
    &query_narrow::SHADER,
]);
pub const KEY_VALUE: Pass = Pass([
    &key_value::SHADER,
    &key_value_matrices::SHADER,
    &key_value_narrow::SHADER,
]);

/// A shader with its constants, and the workgroups for so many rows of a head.
pub struct Chosen {
    pub shader: &'static Shader,
    pub constants: Vec<(u32, u32)>,
    rows: usize,
    chunks: usize,
}

impl Pass {
    pub fn choose(&self, ctx: &Context, attention: &RangedAttention) -> Chosen {
        let matrices = match ctx.tuning().products.integers {
            IntegerPath::Matrices(shape) if fits(shape) => Some(shape),
            _ => None,
        };
        let [plain, of_matrices, narrow] = self.0;
        let (shader, rows) = match matrices {
            None => (plain, PLAIN_ROWS),
            Some(shape) => {
                let shader = if shape.is_narrow() {
                    narrow
                } else {
                    of_matrices
                };
                (shader, (SUBGROUPS * shape.subgroup) as usize)
            }
        };
        // `D`, whether scores are capped, whether weights are dropped.
        let sizes = [
            (0, attention.head_width as u32),
            (2, u32::from(attention.soft_cap.is_some())),
            (3, u32::from(attention.dropout.is_some())),
        ];
        let of_shape = matrices.map(|shape| shape.specialization(SUBGROUPS));
        Chosen {
            shader,
            constants: sizes
                .into_iter()
                .chain(of_shape.into_iter().flatten())
                .collect(),
            rows,
            chunks: attention.head_width.div_ceil(COLUMNS),
        }
    }
}

impl Chosen {
    /// Workgroups of `heads` heads with so many rows.
    pub fn groups(&self, rows: usize, heads: usize) -> usize {
        rows.div_ceil(self.rows) * self.chunks * heads
    }
}

/// Whether matrices divide a block, and a subgroup has whole ones of its rows.
const fn fits(shape: MatrixShape) -> bool {
    BLOCK.is_multiple_of(shape.columns)
        && BLOCK.is_multiple_of(shape.terms)
        && shape.subgroup.is_multiple_of(shape.rows)
}
