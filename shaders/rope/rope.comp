// Rotary positions: pairs of a head's elements rotated by the angle of their position.
//
// x, y [rows, H, D]; positions [rows]; frequencies [half], 2 half <= D. Element i < half of a head
// makes a pair with element i + half. With a = position * frequency[i], c = cos(a) * scale and
// s = sin(a) * scale, of the inverse rotation -sin(a) * scale:
//   y[i] = fma(x[i], c, -(x[i + half] * s)), y[i + half] = fma(x[i + half], c, x[i] * s).
// The elements from 2 half on are copied. A thread has one pair, or one copied element, of all heads
// of a row, so that sine and cosine are computed once.
#extension GL_EXT_control_flow_attributes : require // also of modules without such a loop
#include "../include/math.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint rows, heads, width, pairs, inverse;
    float scale;
} push;

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Positions { uint positions[]; };
layout(set = 0, binding = 2) readonly restrict buffer Frequencies { float frequencies[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Y { float y[]; };

void main() {
    uint threads = push.width - push.pairs;
    uint thread = hlx_group() * 256u + gl_LocalInvocationID.x;
    uint row = thread / threads;
    uint i = thread % threads;
    if (row >= push.rows) return;
    uint place = row * push.heads * push.width + i;
    if (i >= push.pairs) {
        place += push.pairs;
        for (uint head = 0u; head < push.heads; ++head, place += push.width) y[place] = x[place];
        return;
    }
    precise float angle = hlx_mul(float(positions[row]), frequencies[i]);
    precise float c = hlx_mul(hlx_cos(angle), push.scale);
    precise float s = hlx_mul(hlx_sin(angle), push.scale);
    if (push.inverse != 0u) s = -s;
    for (uint head = 0u; head < push.heads; ++head, place += push.width) {
        precise float first = x[place];
        precise float second = x[place + push.pairs];
        y[place] = hlx_fma(first, c, -hlx_mul(second, s));
        y[place + push.pairs] = hlx_fma(second, c, hlx_mul(first, s));
    }
}
