//! The shaders of attention over ranges: one for each class of head widths.

use hlx_core::Shader;

shader!(forward_64, attention::ranged_forward_64);
shader!(forward_128, attention::ranged_forward_128);
shader!(forward_256, attention::ranged_forward_256);
shader!(backward_query_64, attention::ranged_backward_query_64);
shader!(backward_query_128, attention::ranged_backward_query_128);
shader!(backward_query_256, attention::ranged_backward_query_256);
shader!(
    backward_key_value_64,
    attention::ranged_backward_key_value_64
);
shader!(
    backward_key_value_128,
    attention::ranged_backward_key_value_128
);
shader!(
    backward_key_value_256,
    attention::ranged_backward_key_value_256
);

shader!(weights, attention::ranged_weights);
shader!(sum, attention::ranged_sum);
shader!(scores, attention::ranged_scores);
shader!(softmax, attention::ranged_softmax);
shader!(output, attention::ranged_output);

pub use forward_64::Push;

/// The rows and columns of the workgroups of the passes that store scores and weights, except the softmax.
pub const STORED_TILE: [usize; 2] = [128, 64];

/// A kernel's shaders for heads of at most 64, 128 and 256 columns, with the rows of a workgroup.
pub struct Variants([(&'static Shader, usize); 3]);

impl Variants {
    pub const FORWARD: Self = Self([
        (&forward_64::SHADER, 64),
        (&forward_128::SHADER, 64),
        (&forward_256::SHADER, 32),
    ]);
    pub const BACKWARD_QUERY: Self = Self([
        (&backward_query_64::SHADER, 64),
        (&backward_query_128::SHADER, 64),
        (&backward_query_256::SHADER, 32),
    ]);
    pub const BACKWARD_KEY_VALUE: Self = Self([
        (&backward_key_value_64::SHADER, 32),
        (&backward_key_value_128::SHADER, 32),
        (&backward_key_value_256::SHADER, 32),
    ]);

    /// The shader for heads of this width, and the rows of its workgroups.
    pub fn of(&self, head_width: usize) -> (&'static Shader, usize) {
        match head_width {
            0..=64 => self.0[0],
            65..=128 => self.0[1],
            _ => self.0[2],
        }
    }
}
