// The frame of a reduction over any axes: pieces of up to 4,096 terms, 128 lanes per piece and the
// tree by halves of docs/numerics.md. One launch makes one value of each piece of each result.
//
// Lane l of a piece joins its terms l, l + 128, l + 256, ... in that order; then lane[l] joins
// lane[l + 64], and so on with 32, 16, 8, 4, 2, 1. Lanes without a term change nothing and are left
// out: LANES is 128, or less for shorter pieces, a power of two. A piece is an item. A workgroup
// carries COLUMNS items with THREADS threads each, and a thread the lanes t, t + THREADS, ...; its
// loads of AHEAD rows of lanes are under way together.
//
// Neighbouring threads load neighbouring terms of one item (ALONG, for inner axes) or the same term
// of neighbouring items (for outer axes), so that loads are runs of memory in both cases. Items are
// numbered [kept, pieces] with ALONG and [pieces, kept] without: neighbours share rows of memory.
//
// A shader defines STATE (what a lane holds) before, and then nothing(), load(at, row),
// join(state, state) and store(item, state). It may define LATER(state, term), how a lane joins the
// next of its terms, and FIRST(row), what it holds before one that is not before this row.

#ifndef LATER
#define LATER(state, term) join(state, term)
#define FIRST(row) nothing()
#endif

#include "../include/arith.glsl"
#include "../include/order_key.glsl"

layout(local_size_x = 256, local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 128u;
layout(constant_id = 2) const uint THREADS = 32u;
layout(constant_id = 3) const uint COLUMNS = 8u;
layout(constant_id = 4) const uint AHEAD = 4u;
layout(constant_id = 5) const uint ALONG = 1u;
layout(constant_id = 6) const uint STRIDED = 0u;  // several reduced dimensions
layout(constant_id = 7) const uint DTYPE = 0u;    // of the terms

const uint PIECE = 4096u;
const uint HELD = LANES / THREADS;
const uint LOADS = HELD * AHEAD;

layout(push_constant) uniform Push {
    uint items;
    uint kept;     // results
    uint pieces;   // of a result
    uint terms;    // of a result
    uint first;    // the place of the first term
    uint origin;   // the first term's number
    uint n_kept;   // dimensions that are kept; those that are reduced follow
    uint n_dims;
    uint magic;    // division by the innermost reduced extent (crate::division)
    uint shift, extents[8], strides[8];
} push;

STATE nothing();
STATE load(uint at, uint row);
STATE join(STATE a, STATE b);
void store(uint item, STATE state);

#define HLX_LINE_DIMS push.n_kept
#include "../include/lines.glsl"

// How far a term lies from the result's first one.
uint place_of_term(uint row) {
    uint d = push.n_dims - 1u;
    if (STRIDED == 0u) return row * push.strides[d];
    uint high, low;
    umulExtended(push.magic, row, high, low);
    uint rest = (high + ((row - high) >> 1)) >> push.shift;
    uint place = (row - rest * push.extents[d]) * push.strides[d];
    for (--d; d > push.n_kept; --d) {
        uint next = rest / push.extents[d];
        place += (rest - next * push.extents[d]) * push.strides[d];
        rest = next;
    }
    return place + rest * push.strides[d];
}

shared STATE levels[7][256];

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint lane = ALONG != 0u ? thread % THREADS : thread / COLUMNS;
    uint item = hlx_group() * COLUMNS + (ALONG != 0u ? thread / THREADS : thread % COLUMNS);
    uint piece = ALONG != 0u ? item % push.pieces : item / push.kept;
    uint base = hlx_line_place(ALONG != 0u ? item / push.pieces : item % push.kept);
    uint begin = piece * PIECE;
    uint count = item < push.items ? min(push.terms - begin, PIECE) : 0u;

    STATE lanes[HELD];
    [[unroll]] for (uint j = 0u; j < HELD; ++j) lanes[j] = FIRST(begin + lane + THREADS * j);
    for (uint row = lane; row - lane < count; row += LANES * AHEAD) {
        STATE loaded[LOADS];
        if (row - lane + LANES * AHEAD <= count) {
            [[unroll]] for (uint i = 0u; i < LOADS; ++i)
                loaded[i] = load(base + place_of_term(begin + row + THREADS * i), begin + row + THREADS * i);
        } else {
            [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
                loaded[i] = nothing();
                uint term = row + THREADS * i;
                if (term < count) loaded[i] = load(base + place_of_term(begin + term), begin + term);
            }
        }
        [[unroll]] for (uint i = 0u; i < LOADS; ++i) lanes[i % HELD] = LATER(lanes[i % HELD], loaded[i]);
    }
    // The tree's levels within a thread, and then those across threads. A join does not depend on
    // the order of its two sides, so both threads of a pair compute it.
    [[unroll]] for (uint half_held = HELD / 2u; half_held > 0u; half_held /= 2u)
        [[unroll]] for (uint j = 0u; j < half_held; ++j) lanes[j] = join(lanes[j], lanes[j + half_held]);
    STATE total = lanes[0];
    uint level = 0u;
    for (uint distance = THREADS / 2u; distance > 0u; distance /= 2u) {
        levels[level][thread] = total;
        barrier();
        total = join(total, levels[level][thread ^ (ALONG != 0u ? distance : distance * COLUMNS)]);
        ++level;
    }
    if (lane == 0u && item < push.items) store(item, total);
}
