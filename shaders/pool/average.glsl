// What the sum over a window is divided by.
#include "windows.glsl"

// 0: the window's elements with those in the padding; 1: those inside; 2: push.divisor.
layout(constant_id = 1) const uint DIVISOR = 0u;

float divisor_of(uint oy, uint ox) {
    if (DIVISOR == 2u) return push.divisor;
    if (DIVISOR == 0u) return float(padded_length(axis_y(), oy) * padded_length(axis_x(), ox));
    uvec2 rows = window_of(axis_y(), oy);
    uvec2 columns = window_of(axis_x(), ox);
    return float((rows.y - rows.x) * (columns.y - columns.x));
}
