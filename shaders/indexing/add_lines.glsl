// Adds by index along an axis, line by line: target[line, index[line, p]] += source[line, p] for
// p = 0, 1, 2, ... in that order; the order is that of segments.glsl, without a sort.
//
// A workgroup has COLUMNS lines and takes 256 / COLUMNS positions of each at a time. In a round every
// thread that waits claims its target by its number, the lowest one of a target adds, and the others
// go on waiting: equal targets are served in the order of their positions. Claims go by slots that
// targets share, which costs rounds but never the order; later rounds claim by lower numbers, so that
// slots need no clearing (below 2^24 rounds, at most one a position).
//
// With HELD a workgroup has one line, whose targets lie in shared memory meanwhile.
//
// Only with more than 4,096 positions (MANY) can a target have several pieces. Then the workgroup
// first counts by slots; unless one has more than 4,096, no target has. Otherwise (EXACT mode) counts
// and the piece under way of each target lie in counts and partials.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint FLOAT = 1u;
layout(constant_id = 1) const uint FLAGGED = 0u;
layout(constant_id = 2) const uint COLUMNS = 1u;
layout(constant_id = 3) const uint MANY = 0u;

layout(push_constant) uniform Push {
    uint lines, positions, n;
    uint inner;  // of the index, for the numbers of bad ones
    uint n_dims, extents[4];
    uint first[3];         // of target, index and source
    uint axis_strides[3];  // of the same
    uint strides[12];
} push;

layout(set = 0, binding = 0) readonly restrict buffer Index { uint index[]; };
layout(set = 0, binding = 1) readonly restrict buffer Source { uint source[]; };
layout(set = 0, binding = 2) restrict buffer Flag { uint flag[]; };
layout(set = 0, binding = 3) coherent restrict buffer Target { uint target[]; };
layout(set = 0, binding = 4) coherent restrict buffer Counts { uint counts[]; };
layout(set = 0, binding = 5) coherent restrict buffer Partials { uint partials[]; };

const uint PIECE = 4096u;
const uint ROWS = 256u / COLUMNS;
const uint SLOTS = 1024u;

shared uint slots[SLOTS];
#ifdef HELD
shared uint held[HELD];
#endif
shared uint waiting[3];
shared uint crowded;

uint add(uint a, uint b) {
    if (FLOAT == 0u) return a + b;
    // Turning -0 into +0 after every addition gives the chain that does it at its end.
    return floatBitsToUint(hlx_pos0(hlx_add(uintBitsToFloat(a), uintBitsToFloat(b))));
}

// One addition to the target of a line's row at `place`.
void add_to(uint row, uint place, uint word) {
#ifdef HELD
    held[row] = add(held[row], word);
#else
    target[place] = add(target[place], word);
#endif
}

void add_in_pieces(uint place, uint word) {
    uint count = counts[place];
    counts[place] = count + 1u;
    if (count < PIECE) {
        target[place] = add(target[place], word);
        return;
    }
    uint partial = 0u;
    if (count % PIECE != 0u) partial = partials[place];
    else if (count > PIECE) target[place] = add(target[place], partials[place]);
    partials[place] = add(partial, word);
}

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint line = hlx_group() * COLUMNS + thread % COLUMNS;
    bool exists = line < push.lines;
    uvec3 base = uvec3(push.first[0], push.first[1], push.first[2]);
    uvec3 stride = uvec3(push.axis_strides[0], push.axis_strides[1], push.axis_strides[2]);
    uint rest = line;
    for (uint d = push.n_dims; d > 0u; --d) {
        uint above = rest / push.extents[d - 1u];
        uint at = rest - above * push.extents[d - 1u];
        base += at * uvec3(push.strides[d - 1u], push.strides[3u + d], push.strides[7u + d]);
        rest = above;
    }
    if (thread < 3u) waiting[thread] = 0u;
    if (thread == 0u) crowded = 0u;
    for (uint i = thread; i < SLOTS; i += 256u) slots[i] = MANY != 0u ? 0u : 0xffffffffu;
#ifdef HELD
    for (uint row = thread; row < push.n; row += 256u) held[row] = target[base.x + row * stride.x];
#endif
    barrier();
    if (MANY != 0u) {
        for (uint p = thread / COLUMNS; exists && p < push.positions; p += ROWS) {
            uint row = index[base.y + p * stride.y];
            if (row >= push.n) continue;
            uint others = atomicAdd(slots[(row * COLUMNS + thread % COLUMNS) % SLOTS], 1u);
            if (others >= PIECE) crowded = 1u;
        }
        barrier();
        if (crowded != 0u)
            for (uint row = thread / COLUMNS; exists && row < push.n; row += ROWS)
                counts[base.x + row * stride.x] = 0u;
        memoryBarrierBuffer();
        for (uint i = thread; i < SLOTS; i += 256u) slots[i] = 0xffffffffu;
        barrier();
    }
    bool exact = MANY != 0u && crowded != 0u;

    uint round = 0u;
    // The next position's index and source, loaded while this one's are added.
    uint next_row = 0u;
    uint next_word = 0u;
    uint first = thread / COLUMNS;
    if (exists && first < push.positions) {
        next_row = index[base.y + first * stride.y];
        next_word = source[base.z + first * stride.z];
    }
    for (uint begin = 0u; begin < push.positions; begin += ROWS) {
        uint p = begin + thread / COLUMNS;
        bool waits = exists && p < push.positions;
        uint row = next_row;
        uint word = next_word;
        uint slot = (row * COLUMNS + thread % COLUMNS) % SLOTS;
        if (exists && p + ROWS < push.positions) {
            next_row = index[base.y + (p + ROWS) * stride.y];
            next_word = source[base.z + (p + ROWS) * stride.z];
        }
        if (waits && row >= push.n) {
            waits = false;
            uint outer = line / push.inner;
            uint number = (outer * push.positions + p) * push.inner + (line - outer * push.inner);
            if (FLAGGED != 0u) atomicMin(flag[0], number);
        }
        uint place = base.x + row * stride.x;
        bool again = true;
        while (again) {
            uint claim = (0xffffffu - round) << 8 | thread;
            if (waits) atomicMin(slots[slot], claim);
            // All threads have left the round that used this word two rounds ago.
            if (thread == 0u) waiting[(round + 1u) % 3u] = 0u;
            barrier();
            if (waits && slots[slot] == claim) {
                if (exact) add_in_pieces(place, word);
                else add_to(row, place, word);
                waits = false;
            }
            if (waits) waiting[round % 3u] = 1u;
#ifndef HELD
            memoryBarrierBuffer();
#endif
            barrier();
            again = waiting[round % 3u] != 0u;
            ++round;
        }
    }
#ifdef HELD
    for (uint row = thread; row < push.n; row += 256u) target[base.x + row * stride.x] = held[row];
#endif
    if (!exact) return;
    for (uint row = thread / COLUMNS; exists && row < push.n; row += ROWS) {
        uint place = base.x + row * stride.x;
        if (counts[place] > PIECE) target[place] = add(target[place], partials[place]);
    }
}
