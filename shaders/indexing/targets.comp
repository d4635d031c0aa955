// The places of x, contiguous, that indices along an axis choose: one thread an index.
//
// With WINNERS, targets [elements of x] becomes at each place the largest number + 1 of an index that
// chooses it (0 before: none): integers, so no order shows. Otherwise targets [count] becomes each
// index's place. An index out of range chooses nothing (0xffffffff), and lowers flag[0] to its number.
#include "axis.glsl"

layout(constant_id = 0) const uint WINNERS = 0u;

layout(set = 0, binding = 0) readonly restrict buffer Index { uint index[]; };
layout(set = 0, binding = 1) restrict buffer Flag { uint flag[]; };
layout(set = 0, binding = 2) restrict buffer Targets { uint targets[]; };

void main() {
    uint number = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (number >= push.count) return;
    uint place = push.x_first;
    uint index_place = push.index_first;
    EACH_DIMENSION(number, {
        place += at * push.x_strides[d - 1u];
        index_place += at * push.index_strides[d - 1u];
    })
    uint row = index[index_place];
    bool within = row < push.n;
    if (!within && FLAGGED != 0u) atomicMin(flag[0], number);
    place = within ? place + row * push.axis_stride : 0xffffffffu;
    if (WINNERS == 0u) targets[number] = place;
    else if (within) atomicMax(targets[place], number + 1u);
}
