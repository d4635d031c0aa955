// Replaces the counts of each line [16, blocks] by where its digits' elements of each block begin:
// the sum of all counts before, in place. A workgroup a line, 2,048 counts at a time.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint lines;
    uint n;  // counts of a line
} push;

layout(set = 0, binding = 0) restrict buffer Counts { uint counts[]; };

const uint RUN = 8u;

shared uint sums[256];

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint line = hlx_group();
    if (line >= push.lines) return;
    uint before = 0u;
    for (uint chunk = 0u; chunk < push.n; chunk += 256u * RUN) {
        uint own[RUN];
        uint total = 0u;
        [[unroll]] for (uint j = 0u; j < RUN; ++j) {
            uint i = chunk + thread * RUN + j;
            own[j] = i < push.n ? counts[line * push.n + i] : 0u;
            total += own[j];
        }
        sums[thread] = total;
        barrier();
        for (uint distance = 1u; distance < 256u; distance *= 2u) {
            uint left = thread >= distance ? sums[thread - distance] : 0u;
            barrier();
            sums[thread] += left;
            barrier();
        }
        uint begin = before + sums[thread] - total;
        [[unroll]] for (uint j = 0u; j < RUN; ++j) {
            uint i = chunk + thread * RUN + j;
            if (i < push.n) counts[line * push.n + i] = begin;
            begin += own[j];
        }
        before += sums[255];
        barrier();
    }
}
