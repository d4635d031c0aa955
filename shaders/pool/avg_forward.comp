// Average pooling: y[plane, oy, ox] = sum of the window / divisor; the sum is a chain of additions
// in row-major order from +0, in which -0 becomes +0 at the end.
#include "../include/math.glsl"
#include "average.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Y { float y[]; };

void main() {
    HLX_PLANE_ELEMENT(push.output_height, push.output_width, oy, ox)
    uvec2 rows = window_of(axis_y(), oy);
    uvec2 columns = window_of(axis_x(), ox);
    precise float sum = 0.0;
    for (uint iy = rows.x; iy < rows.y; ++iy) {
        uint first = (plane * push.input_height + iy) * push.input_width;
        for (uint ix = columns.x; ix < columns.y; ++ix) sum = hlx_add(sum, x[first + ix]);
    }
    y[at] = hlx_div(hlx_pos0(sum), divisor_of(oy, ox));
}
