// The gradient of maximum pooling: dx[plane, iy, ix] = sum of dy over the windows that took the
// element, a chain of additions in row-major order of the windows from +0; then -0 becomes +0.
#include "windows.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Dy { float dy[]; };
layout(set = 0, binding = 1) readonly restrict buffer Indices { uint indices[]; };
layout(set = 0, binding = 2) writeonly restrict buffer Dx { float dx[]; };

void main() {
    HLX_PLANE_ELEMENT(push.input_height, push.input_width, iy, ix)
    uint place = iy * push.input_width + ix;
    uvec2 rows = windows_over(axis_y(), iy);
    uvec2 columns = windows_over(axis_x(), ix);
    HLX_SUM_OVER_OUTPUTS(dx, rows, columns, if (indices[first + ox] == place) sum = hlx_add(sum, dy[first + ox]);)
}
