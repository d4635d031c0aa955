// y[m,n] = chain over k = 0, 1, .. of fma(x[m,k], w[k,n], acc), then -0 becomes +0: the chain of
// matmul/product.glsl, cut for the few rows of a step, which follow each other.
//
// What counts is how many processors have a part, and the time of a term. A workgroup of 128 threads
// has 16 rows of COLUMNS columns, a thread ROWS rows of one column. TERMS terms at a time lie in shared
// memory, while the next ones are on their way to registers. Terms past K are fma(0, 0, acc).
#include "../include/arith.glsl"

layout(local_size_x = 128) in;
// Where a chain starts: 0 at zero, 1 at the bias, 2 at what y holds.
layout(constant_id = 0) const uint START = 0u;
// K is a multiple of four: whole vectors of x are loaded.
layout(constant_id = 1) const bool VECTORS = false;

layout(push_constant) uniform Push {
    uint m, n, k;
} push;

HLX_WITH_VECTORS(0, readonly, float, X, x)
layout(set = 0, binding = 1) readonly buffer Weight { float w[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };

const uint GROUP_ROWS = 16u;
const uint ROWS = COLUMNS / 8u;
const uint QUADS = TERMS / 4u;
// A shared row of x: one vector of padding, so that rows begin in different banks.
const uint STRIDE = QUADS + 1u;
const uint LOADS_X = GROUP_ROWS * QUADS / 128u;
const uint LOADS_W = TERMS * COLUMNS / 128u;

shared vec4 x_tile[GROUP_ROWS * STRIDE];
shared float w_tile[TERMS * COLUMNS];

// The next terms, on their way.
vec4 x_next[LOADS_X];
float w_next[LOADS_W];

vec4 load_x(uint row, uint k) {
    vec4 v = vec4(0.0);
    if (row >= push.m || k >= push.k) return v;
    uint at = row * push.k + k;
    if (VECTORS) return x_vectors[at >> 2];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) if (k + i < push.k) v[i] = x[at + i];
    return v;
}

void load(uvec2 corner, uint first) {
    uint thread = gl_LocalInvocationIndex;
    uint column = corner.y + thread % COLUMNS;
    [[unroll]] for (uint l = 0u; l < LOADS_X; ++l) {
        uint at = 128u * l + thread;
        x_next[l] = load_x(corner.x + at / QUADS, first + 4u * (at % QUADS));
    }
    [[unroll]] for (uint l = 0u; l < LOADS_W; ++l) {
        uint k = first + (128u * l + thread) / COLUMNS;
        w_next[l] = 0.0;
        if (k < push.k && column < push.n) w_next[l] = w[k * push.n + column];
    }
}

void keep() {
    uint thread = gl_LocalInvocationIndex;
    [[unroll]] for (uint l = 0u; l < LOADS_X; ++l) {
        uint at = 128u * l + thread;
        x_tile[at / QUADS * STRIDE + at % QUADS] = x_next[l];
    }
    [[unroll]] for (uint l = 0u; l < LOADS_W; ++l) w_tile[128u * l + thread] = w_next[l];
}

void main() {
    uint thread = gl_LocalInvocationIndex;
    uint own_column = thread % COLUMNS;
    uint own_row = thread / COLUMNS * ROWS;
    uvec2 corner = uvec2(gl_WorkGroupID.y * GROUP_ROWS, gl_WorkGroupID.x * COLUMNS);
    uint row = corner.x + own_row;
    uint column = corner.y + own_column;
    precise float acc[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        acc[r] = 0.0;
        if (START == 1u && column < push.n) acc[r] = bias[column];
        if (START == 2u && column < push.n && row + r < push.m) acc[r] = y[(row + r) * push.n + column];
    }
    load(corner, 0u);
    for (uint first = 0u; first < push.k; first += TERMS) {
        barrier();
        keep();
        barrier();
        load(corner, first + TERMS);
        if (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u) {
            for (uint q = 0u; q < QUADS; q += 4u)
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    vec4 v[ROWS];
                    [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                        v[r] = x_tile[(own_row + r) * STRIDE + q + j];
                    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                        float weight = w_tile[(4u * (q + j) + i) * COLUMNS + own_column];
                        [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                            acc[r] = hlx_fma(v[r][i], weight, acc[r]);
                    }
                }
        } else {
            // Emulated multiply-adds would fill the program.
            for (uint k = 0u; k < TERMS; ++k) {
                float weight = w_tile[k * COLUMNS + own_column];
                for (uint r = 0u; r < ROWS; ++r)
                    acc[r] = hlx_fma(x_tile[(own_row + r) * STRIDE + k / 4u][k & 3u], weight, acc[r]);
            }
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; ++r)
        if (row + r < push.m && column < push.n) y[(row + r) * push.n + column] = hlx_pos0(acc[r]);
}
