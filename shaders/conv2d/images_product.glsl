// y[s, g M + m, p] = chain over k = (channel, ky, kx) of fma(weight[g M + m, k], patch, acc), from
// 0 or bias[g M + m]; then -0 becomes +0. The patch's element is tap k of pixel p (images.glsl) in
// the images x[s] of group g. A column of the product is a pixel of a sample; a z is a group.
#include "images.glsl"

HLX_WITH_VECTORS(0, readonly, float, Weight, weight)
layout(set = 0, binding = 1) readonly buffer X { float x[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
HLX_WITH_VECTORS(3, writeonly, float, Y, y)

const bool TRANS_A = false;
const bool TRANS_B = false;
#include "../matmul/tile.glsl"

uint group_idx() {
    return push.z_first + gl_WorkGroupID.z;
}

// A thread loads patches of the same four pixels in every step.
Part pixel_parts[4];

void prepare(uvec2 corner) {
    uint first = corner.y + place_of(0u, TRANS_B, TILE_N).outer;
    uint first_plane = group_idx() * (push.image_channels / push.groups);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        pixel_parts[i] = outside();
        if (first + i < push.n) pixel_parts[i] = pixel_part(first + i, first_plane);
    }
}

vec4 load_rows(uint row, uint k) {
    vec4 v = vec4(0.0);
    if (row >= push.m) return v;
    uint at = (group_idx() * push.m + row) * push.k + k;
    if (VECTOR_A) {
        if (k < push.k) v = weight_vectors[at >> 2];
    } else {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) if (k + i < push.k) v[i] = weight[at + i];
    }
    return v;
}

vec4 load_columns(uint l, Place p) {
    vec4 v = vec4(0.0);
    if (p.k >= push.k) return v;
    Part tap = tap_part(p.k);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint element;
        if (element_of(pixel_parts[i], tap, element)) v[i] = x[element];
    }
    return v;
}

float start(uint row, uint column) {
    return bias[group_idx() * push.m + row];
}

uint result_at(uint row, uint column) {
    uint sample_idx = DIVIDED(column, pixels);
    uint plane = (sample_idx * push.groups + group_idx()) * push.m + row;
    return plane * push.pixels + (column - sample_idx * push.pixels);
}

void store_row(uint row, uint column, vec4 v) {
    if (VECTOR_C) {
        if (column < push.n) y_vectors[result_at(row, column) >> 2] = v;
    } else {
        [[unroll]] for (uint i = 0u; i < 4u; ++i)
            if (column + i < push.n) y[result_at(row, column + i)] = v[i];
    }
}

#include "chains.glsl"
