// Selects the first k of each 4,096 pairs of a line, in their order: k is at most 128.
//
// The threads' 16 pairs each have a smallest key; of these, joined to GROUPS >= 2 k, the k-th is a
// bound that at least k pairs do not exceed, and of random keys few more. Those that do not are sorted
// by a bitonic network. Where ties or a bad luck make more than 512 of them, bisection finds the k-th
// pair itself. The pairs are total in order, so neither way shows.
//
// With FIRST pairs are made of x, and a pair's place is its position; otherwise they are read from
// keys and places [lines, n]. With LAST a line has one piece, and results.glsl says what is written;
// otherwise keys and places go to second and result [lines, pieces, k].
#include "sort.glsl"
#include "results.glsl"

layout(constant_id = 2) const uint FIRST = 1u;
layout(constant_id = 4) const uint LAST = 1u;
layout(constant_id = 5) const uint GROUPS = 256u;

layout(set = 0, binding = 3) readonly restrict buffer Keys { uint keys[]; };
layout(set = 0, binding = 4) readonly restrict buffer Places { uint places[]; };

const uint RUN = 16u;
const uint PIECE = RUN * 256u;
const uint MOST = 512u;

shared uint found_keys[MOST];
shared uint found_places[MOST];
shared uint counts[65];

bool is_before(uint key, uint place, uint other_key, uint other_place) {
    return key < other_key || (key == other_key && place < other_place);
}

void compare(uint low, uint high, bool ascending) {
    uint a = found_keys[low];
    uint b = found_keys[high];
    uint a_place = found_places[low];
    uint b_place = found_places[high];
    if (is_before(b, b_place, a, a_place) == ascending) {
        found_keys[low] = b;
        found_keys[high] = a;
        found_places[low] = b_place;
        found_places[high] = a_place;
    }
}

// Sorts the first `count`, a power of two, of the pairs in shared memory.
void sort_found(uint count) {
    uint thread = gl_LocalInvocationID.x;
    for (uint run = 2u; run <= count; run *= 2u) {
        for (uint distance = run / 2u; distance > 0u; distance /= 2u) {
            barrier();
            if (thread < count / 2u) {
                uint low = 2u * (thread & ~(distance - 1u)) | (thread & (distance - 1u));
                compare(low, low | distance, (low & (count - 1u) & run) == 0u);
            }
        }
    }
    barrier();
}

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint line = hlx_group() / push.blocks;
    if (line >= push.lines) return;
    uint piece = hlx_group() - line * push.blocks;
    uint line_place = FIRST != 0u ? hlx_line_place(line) : line * push.n;
    uint own_keys[RUN];
    uint own_places[RUN];
    uint smallest = 0xffffffffu;
    [[unroll]] for (uint e = 0u; e < RUN; ++e) {
        uint i = piece * PIECE + 256u * e + thread;
        // Pairs past the line's end come last: no place of an element is as large.
        own_keys[e] = 0xffffffffu;
        own_places[e] = FIRST != 0u ? i : ~i;
        if (i < push.n) {
            own_keys[e] = FIRST != 0u ? key_at(line_place + i * push.axis_stride) : keys[line_place + i];
            if (FIRST == 0u) own_places[e] = places[line_place + i];
        }
        smallest = min(smallest, own_keys[e]);
    }
    found_keys[thread] = smallest;
    found_places[thread] = 0u;
    if (thread < 65u) counts[thread] = 0u;
    barrier();
    if (thread < GROUPS)
        for (uint other = thread + GROUPS; other < 256u; other += GROUPS)
            smallest = min(smallest, found_keys[other]);
    barrier();
    if (thread < GROUPS) found_keys[thread] = smallest;
    sort_found(GROUPS);
    // Pairs up to this one are candidates.
    uint last_key = found_keys[push.k - 1u];
    uint last_place = 0xffffffffu;
    uint own = 0u;
    [[unroll]] for (uint e = 0u; e < RUN; ++e) own += own_keys[e] <= last_key ? 1u : 0u;
    if (own != 0u) atomicAdd(counts[64], own);
    barrier();
    uint count = counts[64];
    barrier();
    if (count > MOST) {
        // The bits of the k-th pair, from the highest: of its key, then of its place.
        last_key = 0u;
        last_place = 0u;
        for (uint step = 0u; step < 64u; ++step) {
            uint bit = 0x80000000u >> (step & 31u);
            uint key = step < 32u ? last_key | bit : last_key;
            uint place = step < 32u ? 0u : last_place | bit;
            own = 0u;
            [[unroll]] for (uint e = 0u; e < RUN; ++e)
                own += is_before(own_keys[e], own_places[e], key, place) ? 1u : 0u;
            if (own != 0u) atomicAdd(counts[step], own);
            barrier();
            if (counts[step] < push.k) {
                last_key = key;
                last_place = place;
            }
        }
        count = push.k;
    }
    if (thread == 0u) counts[64] = 0u;
    for (uint i = thread; i < MOST; i += 256u) {
        found_keys[i] = 0xffffffffu;
        found_places[i] = 0xffffffffu;
    }
    barrier();
    [[unroll]] for (uint e = 0u; e < RUN; ++e) {
        if (is_before(last_key, last_place, own_keys[e], own_places[e])) continue;
        uint at = atomicAdd(counts[64], 1u);
        found_keys[at] = own_keys[e];
        found_places[at] = own_places[e];
    }
    uint size = 2u;
    while (size < count) size *= 2u;
    sort_found(size);
    if (thread >= push.k) return;
    if (LAST != 0u) {
        store_result(line, thread, found_keys[thread], found_places[thread]);
    } else {
        uint at = hlx_group() * push.k + thread;
        second[at] = found_keys[thread];
        result[at] = found_places[thread];
    }
}
