// The gradient of bilinear interpolation: dx[plane, iy, ix] = chain of fma(wy wx, dy, acc) over the
// outputs that it is a source of, in row-major order from +0; then -0 becomes +0. wy is the weight
// of row iy in output row oy, the sum of both weights where the row is both sources.
#include "places.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Dy { float dy[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Dx { float dx[]; };

// The outputs whose source before them is i - 1 or i.
uvec2 outputs_of(Axis axis, uint i) {
    return uvec2(first_from(axis, max(i, 1u) - 1u), first_from(axis, i + 1u));
}

void main() {
    HLX_PLANE_ELEMENT(push.input_height, push.input_width, iy, ix)
    uvec2 rows = outputs_of(axis_y(), iy);
    uvec2 columns = outputs_of(axis_x(), ix);
    precise float sum = 0.0;
    for (uint oy = rows.x; oy < rows.y; ++oy) {
        precise float wy = weight_of(axis_y(), oy, iy);
        uint first = (plane * push.output_height + oy) * push.output_width;
        for (uint ox = columns.x; ox < columns.y; ++ox) {
            precise float weight = hlx_mul(wy, weight_of(axis_x(), ox, ix));
            sum = hlx_fma(weight, dy[first + ox], sum);
        }
    }
    dx[at] = hlx_pos0(sum);
}
