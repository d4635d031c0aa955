// rows[p] = order[p] / choices and slots[order[p]] = p: the token of each row, and each choice's row.
//
// order holds the choices of all tokens, sorted by expert. order, rows, slots [n].
#include "../include/arith.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint n, choices;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Order { uint order[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Rows { uint rows[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Slots { uint slots[]; };

void main() {
    uint p = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (p >= push.n) return;
    uint choice = order[p];
    rows[p] = choice / push.choices;
    if (choice < push.n) slots[choice] = p;
}
