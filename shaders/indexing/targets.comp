// The places of x, contiguous, that indices along an axis choose: one thread an index.
//
// With WINNERS, targets [elements of x] becomes at each place the largest number + 1 of an index that
// chooses it (0 before: none): integers, so no order shows. Otherwise targets [count] becomes each
// index's place. An index out of range chooses nothing (0xffffffff), and lowers flag[0] to its number.
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint WINNERS = 0u;
layout(constant_id = 1) const uint FLAGGED = 0u;

// As in gather.comp.
layout(push_constant) uniform Push {
    uint count;
    uint n;
    uint axis_stride;
    uint x_first;
    uint index_first;
    uint n_dims;
    uint extents[8];
    uint x_strides[8];
    uint index_strides[8];
} push;

layout(set = 0, binding = 0) readonly restrict buffer Index { uint index[]; };
layout(set = 0, binding = 1) restrict buffer Flag { uint flag[]; };
layout(set = 0, binding = 2) restrict buffer Targets { uint targets[]; };

void main() {
    uint number = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (number >= push.count) return;
    uint place = push.x_first;
    uint index_place = push.index_first;
    uint rest = number;
    for (uint d = push.n_dims; d > 0u; --d) {
        uint above = d > 1u ? rest / push.extents[d - 1u] : 0u;
        uint at = rest - above * push.extents[d - 1u];
        place += at * push.x_strides[d - 1u];
        index_place += at * push.index_strides[d - 1u];
        rest = above;
    }
    uint row = index[index_place];
    bool within = row < push.n;
    if (!within && FLAGGED != 0u) atomicMin(flag[0], number);
    place = within ? place + row * push.axis_stride : 0xffffffffu;
    if (WINNERS == 0u) targets[number] = place;
    else if (within) atomicMax(targets[place], number + 1u);
}
