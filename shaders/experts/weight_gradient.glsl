// dweight[s, n, k] = chain over the rows p of an expert and shard s in order of fma(dy[p, n], x[p, k],
// acc), from 0 or from the stored value, then -0 becomes +0. The rows of shard s are those from
// bounds[first + s] to bounds[first + s + 1].
//
// dy [rows, M], x [rows, N], dweight [shards, M, N] in the words of a product; a z is a shard.
#include "../include/arith.glsl"

// Where the chain starts: 0 at zero, 2 at what dweight holds.
layout(constant_id = 0) const uint START = 0;
// Rows of dy, or of x and dweight, start at a multiple of four floats.
layout(constant_id = 1) const bool VECTOR_A = false;
layout(constant_id = 2) const bool VECTOR_B = false;
const bool TRANS_A = true;
const bool TRANS_B = false;
const bool EVEN = false;
const bool SUMMED = false;

layout(push_constant) uniform Push {
    uint m, n, column_first, rows, first;
} push;

HLX_WITH_VECTORS(0, readonly, float, Gradient, dy)
HLX_WITH_VECTORS(1, readonly, float, X, x)
layout(set = 0, binding = 2) readonly buffer Bounds { uint bounds[]; };
HLX_WITH_VECTORS(3, , float, Weight, dweight)

#include "../matmul/tile.glsl"

#define RUNS

uint row_first;
uint row_end;

void prepare(uvec2 corner) {
    uint group = push.first + gl_WorkGroupID.z;
    row_first = bounds[group];
    row_end = min(bounds[group + 1u], push.rows);
}

uint runs() {
    return 1u;
}

uint prepare_run(uint run) {
    return row_first < row_end ? row_end - row_first : 0u;
}

// Four columns of dy from `column` on, of term k.
vec4 load_rows(uint column, uint k) {
    vec4 v = vec4(0.0);
    uint p = row_first + k;
    if (p >= row_end || column >= push.m) return v;
    uint at = p * push.m + column;
    if (VECTOR_A) return dy_vectors[at >> 2];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) if (column + i < push.m) v[i] = dy[at + i];
    return v;
}

vec4 load_columns(uint l, Place place) {
    vec4 v = vec4(0.0);
    uint p = row_first + place.k;
    if (p >= row_end || place.outer >= push.n) return v;
    uint at = p * push.n + place.outer;
    if (VECTOR_B) return x_vectors[at >> 2];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) if (place.outer + i < push.n) v[i] = x[at + i];
    return v;
}

uint place_in_weight(uint row, uint column) {
    return (gl_WorkGroupID.z * push.m + row) * push.n + column;
}

float start(uint row, uint column) {
    return dweight[place_in_weight(row, column)];
}

void store_row(uint row, uint column, vec4 v) {
    uint at = place_in_weight(row, column);
    HLX_STORE_FOUR(i, VECTOR_B, dweight, at, column, push.n, v)
}

#include "../conv2d/chains.glsl"
