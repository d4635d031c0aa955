// What the ordered additions share: contributions sorted by their target, keys [count] and
// positions [count], equal keys in the order of their positions; 0xffffffff is no target.
//
// A contribution has `lines` elements, each an addition of its own. Contribution p of line l lies in
// the source at the place of line l, or of position p (BY_POSITION, one line). Its target is
// (l / inner) n inner + key inner + l mod inner. A target's contributions are cut into pieces of
// 4,096: its first piece continues from the stored value, the others start from +0.
#extension GL_EXT_control_flow_attributes : require // also of modules without such a loop
#include "../include/arith.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint FLOAT = 1u;
layout(constant_id = 1) const uint BY_POSITION = 0u;

layout(push_constant) uniform Push {
    uint count, lines, n, inner;
    uint axis_stride;  // of the source, from position to position
    HLX_LINE_MEMBERS
} push;

#include "../include/lines.glsl"

const uint PIECE = 4096u;
const uint NO_TARGET = 0xffffffffu;

layout(set = 0, binding = 0) readonly restrict buffer Keys { uint keys[]; };

uint add(uint a, uint b) {
    if (FLOAT == 0u) return a + b;
    return floatBitsToUint(hlx_add(uintBitsToFloat(a), uintBitsToFloat(b)));
}

uint stored(uint total) {
    return FLOAT == 0u ? total : floatBitsToUint(hlx_pos0(uintBitsToFloat(total)));
}

uint target_place(uint key, uint line) {
    uint outer = line / push.inner;
    return (outer * push.n + key) * push.inner + (line - outer * push.inner);
}
