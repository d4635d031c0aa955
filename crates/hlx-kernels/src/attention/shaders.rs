//! The shaders of packed causal attention, and what each takes.
//!
//! All of them give the same bits: tiles change who computes an element, never the order in which
//! its terms are added.

use hlx_core::Shader;

use super::AttentionShape;

shader!(wide_forward, attention::forward);
shader!(wide_backward_query, attention::backward_query);
shader!(wide_backward_key_value, attention::backward_key_value);
shader!(forward_64, attention::forward_64);
shader!(forward_32, attention::forward_32);
shader!(backward_delta, attention::backward_delta);
shader!(backward_query_stored, attention::backward_query_stored);
shader!(backward_key_value_32, attention::backward_key_value_32);
shader!(
    backward_key_value_cached,
    attention::backward_key_value_cached
);

shader!(forward_64_dropped, attention::forward_64_dropped);
shader!(
    backward_key_value_cached_dropped,
    attention::backward_key_value_cached_dropped
);

/// A shader and what it takes.
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

const fn variant(
    shader: &'static Shader,
    rows: usize,
    width: usize,
    shared_bytes: u32,
    fills: bool,
) -> Variant {
    Variant {
        shader,
        rows,
        width,
        shared_bytes,
        fills,
    }
}

/// A kernel's variants, the one for most work first; the last runs every shape on every device.
pub static FORWARD: [Variant; 3] = [
    variant(&forward_64::SHADER, 64, 64, 16_384, true),
    variant(&forward_32::SHADER, 32, 64, 29_696, false),
    variant(&wide_forward::SHADER, 64, 128, 30_208, false),
];
/// The backward that computes s and dp for each of its two kernels.
pub static BACKWARD_QUERY: Variant = variant(&wide_backward_query::SHADER, 64, 128, 30_208, false);
pub static BACKWARD_KEY_VALUE: Variant =
    variant(&wide_backward_key_value::SHADER, 64, 128, 30_208, false);
/// The backward that keeps ds: dK and dV, which store it, then dQ.
pub static STORED_KEY_VALUE: [Variant; 3] = [
    variant(&backward_key_value_cached::SHADER, 32, 64, 24_576, true),
    variant(&backward_key_value_32::SHADER, 32, 64, 40_960, false),
    variant(&backward_key_value_cached::SHADER, 32, 64, 24_576, false),
];
pub static STORED_QUERY: Variant = variant(&backward_query_stored::SHADER, 128, 64, 12_288, false);

/// Where weights are dropped.
pub static DROPPED_FORWARD: Variant = variant(&forward_64_dropped::SHADER, 64, 64, 16_384, false);
pub static DROPPED_KEY_VALUE: Variant = variant(
    &backward_key_value_cached_dropped::SHADER,
    32,
    64,
    25_600,
    false,
);

/// Delta's shader, and the rows of `[B, T, H, D]` of one workgroup.
pub static DELTA: (&Shader, usize) = (&backward_delta::SHADER, 32);

impl Variant {
    /// Workgroups that carry out `heads` heads of `shape`.
    pub fn groups(&self, shape: &AttentionShape, heads: usize) -> usize {
        heads * shape.time.div_ceil(self.rows)
    }
}
