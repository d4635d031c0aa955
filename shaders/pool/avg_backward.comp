// The gradient of average pooling: dx[plane, iy, ix] = sum of dy[plane, oy, ox] / divisor over the
// windows that see the element, a chain of additions in row-major order from +0; then -0 becomes +0.
#include "../include/math.glsl"
#include "average.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Dy { float dy[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Dx { float dx[]; };

void main() {
    HLX_PLANE_ELEMENT(push.input_height, push.input_width, iy, ix)
    uvec2 rows = windows_over(axis_y(), iy);
    uvec2 columns = windows_over(axis_x(), ix);
    HLX_SUM_OVER_OUTPUTS(dx, rows, columns, sum = hlx_add(sum, hlx_div(dy[first + ox], divisor_of(oy, ox)));)
}
