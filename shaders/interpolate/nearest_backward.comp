// The gradient of nearest interpolation: dx[plane, iy, ix] = sum of dy over the outputs whose source
// it is, a chain of additions in row-major order from +0; then -0 becomes +0.
#include "places.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Dy { float dy[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Dx { float dx[]; };

void main() {
    HLX_PLANE_ELEMENT(push.input_height, push.input_width, iy, ix)
    uvec2 rows = uvec2(first_from(axis_y(), iy), first_from(axis_y(), iy + 1u));
    uvec2 columns = uvec2(first_from(axis_x(), ix), first_from(axis_x(), ix + 1u));
    HLX_SUM_OVER_OUTPUTS(dx, rows, columns, sum = hlx_add(sum, dy[first + ox]);)
}
