// dweight[z, m, n] = chain over the terms k = (sample, pixel) of a shard of
// fma(dy[sample, g M + m, pixel], patch, acc), from 0 or from the stored value. Planes of many pixels
// are cut into runs (conv2d.rs says which): with SUMMED, the runs' chains, each from 0, are added to
// the start in order. Then -0 becomes +0.
//
// The patch's element is tap n = (channel, ky, kx) of the pixel (images.glsl) in the images x of
// group g. A z is a group of push.runs runs that follow each other, or of a shard.
#include "images.glsl"

// A chain is cut into runs, and this launch adds them.
layout(constant_id = 6) const bool SUMMED = false;
// Terms run on from one sample to the next.
layout(constant_id = 7) const bool ACROSS = false;
// Four terms from a multiple of four on are pixels of one row.
layout(constant_id = 8) const bool QUADS = false;

HLX_WITH_VECTORS(0, readonly, float, Gradient, dy)
layout(set = 0, binding = 1) readonly buffer X { float x[]; };
HLX_WITH_VECTORS(2, , float, Weight, dweight)

const bool TRANS_A = false;
const bool TRANS_B = true;
#include "../matmul/tile.glsl"

#define RUNS

uint z_idx() {
    return push.z_first + gl_WorkGroupID.z;
}

uint group_idx() {
    return z_idx() % push.groups;
}

// A thread loads the same taps in every step: the elements before a tap, and its share in y and x.
Part tap_parts[LOADS_B];
// The first sample and pixel of a run, and its end in terms from there.
uint run_sample;
uint run_pixel;
uint run_terms;

void prepare(uvec2 corner) {
    uint first_plane = group_idx() * (push.image_channels / push.groups);
    [[unroll]] for (uint l = 0u; l < LOADS_B; ++l) {
        uint tap = corner.y + place_of(l, true, TILE_N).outer;
        tap_parts[l] = outside();
        if (tap < push.n) {
            tap_parts[l] = tap_part(tap);
            tap_parts[l].base += first_plane * push.image_height * push.image_width;
        }
    }
}

uint runs() {
    return push.runs;
}

uint prepare_run(uint run) {
    uint first = z_idx() / push.groups * push.runs + run;
    if (ACROSS) {
        uint samples = DIVIDED(push.k, pixels);
        run_sample = first * samples;
        run_pixel = 0u;
        run_terms = push.k;
    } else {
        run_sample = first / push.sample_runs;
        run_pixel = (first - run_sample * push.sample_runs) * push.k;
        run_terms = min(push.k, push.pixels - run_pixel);
    }
    return run_terms;
}

// A term's sample, counted from the run's, and its pixel.
uvec2 term_place(uint k) {
    uint sample_idx = ACROSS ? DIVIDED(k, pixels) : 0u;
    return uvec2(sample_idx, run_pixel + k - sample_idx * push.pixels);
}

// The place of dy's element for a row and a term.
uint gradient_at(uint row, uvec2 place) {
    uint plane = ((run_sample + place.x) * push.groups + group_idx()) * push.m + row;
    return plane * push.pixels + place.y;
}

vec4 load_rows(uint row, uint k) {
    vec4 v = vec4(0.0);
    if (row >= push.m || k >= run_terms) return v;
    uvec2 place = term_place(k);
    uint at = gradient_at(row, place);
    if (VECTOR_A) return dy_vectors[at >> 2];
    uint samples_step = (push.groups * push.m - 1u) * push.pixels;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (k + i < run_terms) v[i] = dy[at + i];
        if (ACROSS && ++place.y == push.pixels) {
            place.y = 0u;
            at += samples_step;
        }
    }
    return v;
}

// Four elements of a row of an image.
vec4 load_quad(uint base, uvec2 at) {
    vec4 v = vec4(0.0);
    if (at.y >= push.image_height) return v;
    uint element = base + at.y * push.image_width + at.x;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint ahead = i * push.scale_x;
        if (at.x + ahead < push.image_width) v[i] = x[element + ahead];
    }
    return v;
}

vec4 load_columns(uint l, Place p) {
    vec4 v = vec4(0.0);
    if (p.k >= run_terms) return v;
    Part tap = tap_parts[l];
    uvec2 place = term_place(p.k);
    uint sample_elements = push.image_channels * push.image_height * push.image_width;
    uint base = (run_sample + place.x) * sample_elements + tap.base;
    uint row = DIVIDED(place.y, width);
    uvec2 pixel = uvec2(place.y - row * push.width, row);
    uvec2 scale = uvec2(push.scale_x, push.scale_y);
    uvec2 first = tap.at + uvec2(push.first_x, push.first_y);
    uvec2 at = pixel * scale + first;
    if (QUADS) return load_quad(base, at);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        bool inside = at.x < push.image_width && at.y < push.image_height;
        if (inside && p.k + i < run_terms) v[i] = x[base + at.y * push.image_width + at.x];
        at.x += scale.x;
        if (++pixel.x == push.width) {
            pixel.x = 0u;
            at = uvec2(first.x, at.y + scale.y);
            if (ACROSS && at.y == first.y + push.height * scale.y) {
                at.y = first.y;
                base += sample_elements;
            }
        }
    }
    return v;
}

float start(uint row, uint column) {
    return dweight[(z_idx() * push.m + row) * push.n + column];
}

void store_row(uint row, uint column, vec4 v) {
    uint at = (z_idx() * push.m + row) * push.n + column;
    HLX_STORE_FOUR(i, VECTOR_C, dweight, at, column, push.n, v)
}

#include "chains.glsl"
