// The rows of heads as integers: one exponent per row from its largest magnitude, and the digits of every number by it.
// x: [batch, positions, heads, k] by strides; prepared: digits [planes, batch, heads, positions, words], four of 8 bits a
// word, zeros past k, then exponents [batch, heads, positions]. Rows with two digits have two planes, the upper digits first.
// 32 threads have a row, of at most 256 numbers.
// With TWICE the same rows follow with one digit, in a buffer of their own.
#include "tops_of_rows.glsl"

// Integers of 16 bits in two digits, not of 8 in one.
layout(constant_id = 0) const bool WIDE = false;
// k, the strides and the first element are multiples of four.
layout(constant_id = 1) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint rows, heads, positions, k;
    uint words;  // of a row in a plane
    // The first element, and the strides of samples, positions and heads.
    uint first, batch_stride, position_stride, head_stride;
} push;

HLX_WITH_VECTORS(0, readonly restrict, float, X, x)
layout(set = 0, binding = 1) writeonly restrict buffer Prepared { uint prepared[]; };
#ifdef TWICE
layout(set = 0, binding = 2) writeonly restrict buffer Narrow { uint narrow[]; };
#endif

// Vectors of a thread.
const uint OWN = 2u;

// Numbers 4 i .. 4 i + 3 of the row at `at`, zeros past its end.
vec4 load(uint at, uint i) {
    if (VECTORS) return 4u * i < push.k ? x_vectors[at / 4u + i] : vec4(0.0);
    vec4 v = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (4u * i + j < push.k) v[j] = x[at + 4u * i + j];
    return v;
}

void main() {
    DECLARE_LANE
    uint row = hlx_group() * ROWS + own;
    uint read_row = min(row, push.rows - 1u);
    uint all_heads = read_row / push.positions;
    uint at = push.first + all_heads / push.heads * push.batch_stride +
        all_heads % push.heads * push.head_stride + read_row % push.positions * push.position_stride;
    vec4 v[OWN];
    uint top = 0u;
    [[unroll]] for (uint j = 0u; j < OWN; ++j) {
        v[j] = load(at, lane + j * THREADS);
        ADD_TO_TOP(v[j])
    }
    JOIN_TOPS
    if (row >= push.rows) return;

    int exponent = hlx_row_exponent(top, WIDE);
    vec2 scale = hlx_scale(exponent);
    uint plane = push.rows * push.words;
    if (lane == 0u) prepared[(WIDE ? 2u : 1u) * plane + row] = uint(exponent);
    [[unroll]] for (uint j = 0u; j < OWN; ++j) {
        uint word = lane + j * THREADS;
        if (word >= push.words) break;
        ivec4 q = hlx_quantised4(v[j], exponent, scale);
        uint to = row * push.words + word;
        HLX_STORE_DIGITS(prepared, to, plane, q, WIDE)
    }
#ifdef TWICE
    int narrow_exponent = hlx_row_exponent(top, false);
    vec2 narrow_scale = hlx_scale(narrow_exponent);
    if (lane == 0u) narrow[plane + row] = uint(narrow_exponent);
    [[unroll]] for (uint j = 0u; j < OWN; ++j) {
        uint word = lane + j * THREADS;
        if (word >= push.words) break;
        narrow[row * push.words + word] = hlx_lower_digits(hlx_quantised4(v[j], narrow_exponent, narrow_scale));
    }
#endif
}
