// Sorts lines of up to 1,024 elements: a bitonic network over (key, place) in shared memory.
//
// ROW is a power of two, n or more; a workgroup has the lines that fit into 512 pairs, or one. Pairs
// past a line's end come last. Bitonic sort: K. Batcher, *Sorting networks and their applications*,
// 1968. results.glsl says what is written.
#include "sort.glsl"
#include "results.glsl"

layout(constant_id = 2) const uint ROW = 512u;

const uint SIZE = ROW > 512u ? ROW : 512u;

shared uint keys[SIZE];
shared uint places[SIZE];

void compare(uint low, uint high, bool ascending) {
    uint a = keys[low];
    uint b = keys[high];
    uint a_place = places[low];
    uint b_place = places[high];
    bool after = a > b || (a == b && a_place > b_place);
    if (after == ascending) {
        keys[low] = b;
        keys[high] = a;
        places[low] = b_place;
        places[high] = a_place;
    }
}

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint first_line = hlx_group() * (SIZE / ROW);
    for (uint i = thread; i < SIZE; i += 256u) {
        uint line = first_line + i / ROW;
        uint at = i % ROW;
        bool exists = line < push.lines && at < push.n;
        keys[i] = 0xffffffffu;
        places[i] = exists ? at : 0xffffffffu;
        if (exists) keys[i] = key_at(hlx_line_place(line) + at * push.axis_stride);
    }
    for (uint run = 2u; run <= ROW; run *= 2u) {
        for (uint distance = run / 2u; distance > 0u; distance /= 2u) {
            barrier();
            for (uint pair = thread; pair < SIZE / 2u; pair += 256u) {
                uint low = 2u * (pair & ~(distance - 1u)) | (pair & (distance - 1u));
                compare(low, low | distance, (low & (ROW - 1u) & run) == 0u);
            }
        }
    }
    barrier();
    for (uint i = thread; i < SIZE; i += 256u) {
        uint line = first_line + i / ROW;
        uint at = i % ROW;
        if (line < push.lines) store_result(line, at, keys[i], places[i]);
    }
}
