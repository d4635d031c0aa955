// dweight[z, m, n] = chain over k = (sample of the shard, pixel) of
// fma(dy[sample, g M + m, pixel], patch, acc), from 0 or from the stored value; then -0 becomes +0.
// The patch's element is tap n = (channel, ky, kx) of the pixel (images.glsl) in the images x of
// group g. A z is a group of a shard.
#extension GL_EXT_control_flow_attributes : require
#include "../include/arith.glsl"
#include "images.glsl"

layout(set = 0, binding = 0) readonly buffer Gradient { float dy[]; };
layout(set = 0, binding = 0) readonly buffer GradientVectors { vec4 dy_vectors[]; };
layout(set = 0, binding = 1) readonly buffer X { float x[]; };
layout(set = 0, binding = 2) buffer Weight { float dweight[]; };
layout(set = 0, binding = 2) buffer WeightVectors { vec4 dweight_vectors[]; };

const bool TRANS_A = false;
const bool TRANS_B = true;
#include "../matmul/tile.glsl"

uint z_idx() {
    return push.z_first + gl_WorkGroupID.z;
}

// Terms of all shards before this one.
uint terms_before() {
    return z_idx() / push.groups * push.k;
}

void prepare(uvec2 corner) {}

// The place of dy's element for a term, which counts on through the shards.
uint gradient_at(uint row, uint term) {
    uint sample_idx = DIVIDED(term, pixels);
    uint plane = (sample_idx * push.groups + z_idx() % push.groups) * push.m + row;
    return plane * push.pixels + (term - sample_idx * push.pixels);
}

vec4 load_rows(uint row, uint k) {
    vec4 v = vec4(0.0);
    if (row >= push.m) return v;
    uint term = terms_before() + k;
    if (VECTOR_A) {
        if (k < push.k) v = dy_vectors[gradient_at(row, term) >> 2];
    } else {
        [[unroll]] for (uint i = 0u; i < 4u; ++i)
            if (k + i < push.k) v[i] = dy[gradient_at(row, term + i)];
    }
    return v;
}

vec4 load_columns(Place p) {
    vec4 v = vec4(0.0);
    if (p.outer >= push.n) return v;
    Part tap = tap_part(p.outer);
    uint first_plane = z_idx() % push.groups * (push.image_channels / push.groups);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint element;
        Part pixel = pixel_part(terms_before() + p.k + i, first_plane);
        if (p.k + i < push.k && element_of(pixel, tap, element)) v[i] = x[element];
    }
    return v;
}

float start(uint row, uint column) {
    return dweight[(z_idx() * push.m + row) * push.n + column];
}

void store_row(uint row, uint column, vec4 v) {
    uint at = (z_idx() * push.m + row) * push.n + column;
    if (VECTOR_C) {
        if (column < push.n) dweight_vectors[at >> 2] = v;
    } else {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) if (column + i < push.n) dweight[at + i] = v[i];
    }
}

#include "chains.glsl"
