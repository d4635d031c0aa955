// The place of the largest or smallest term over any axes of x: one pass of pieces.glsl.
//
// Terms are compared by the keys of order_key.glsl (all bits flipped for the smallest; NaN first in
// both cases), and among equal keys the lower place wins. With PAIRS, x holds keys of the pass
// before and places their places. result_keys [items] is left alone by the last pass (LAST).
#define STATE uvec2
#define LATER(state, term) later(state, term)
#define FIRST(row) before(row)
uvec2 later(uvec2 best, uvec2 term);
uvec2 before(uint row);
#include "pieces.glsl"

layout(constant_id = 8) const uint FLIP = 0u;
layout(constant_id = 9) const uint PAIRS = 0u;
layout(constant_id = 10) const uint LAST = 0u;

layout(set = 0, binding = 0) readonly restrict buffer X { uint x[]; };
layout(set = 0, binding = 1) readonly restrict buffer Places { uint places[]; };
layout(set = 0, binding = 2) writeonly restrict buffer ResultKeys { uint result_keys[]; };
layout(set = 0, binding = 3) writeonly restrict buffer ResultPlaces { uint result_places[]; };

uvec2 nothing() { return uvec2(0u, 0xffffffffu); }

uvec2 join(uvec2 a, uvec2 b) {
    bool second = b.x > a.x || (b.x == a.x && b.y < a.y);
    return second ? b : a;
}

// A lane's places increase, so a later term wins by its key alone. The smallest key has the place of
// the lane's first term, which is its own if no key is larger.
uvec2 later(uvec2 best, uvec2 term) {
    if (PAIRS != 0u) return join(best, term);
    return term.x > best.x ? term : best;
}

uvec2 before(uint row) {
    return PAIRS != 0u ? nothing() : uvec2(0u, push.origin + row);
}

uvec2 load(uint at, uint row) {
    if (PAIRS != 0u) return uvec2(x[at], places[at]);
    uint word = hlx_widen(DTYPE, x[hlx_element_word(DTYPE, at)], at);
    uint key = hlx_order_key(DTYPE, word);
    bool nan = hlx_is_float(DTYPE) && key == HLX_NAN_KEY;
    return uvec2(nan ? key : key ^ FLIP, push.origin + row);
}

void store(uint item, uvec2 best) {
    if (LAST == 0u) result_keys[item] = best.x;
    result_places[item] = best.y;
}
