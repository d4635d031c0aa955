// Kernels over planes with a thread for each element of the result, which has the index `at` below push.count.
#include "arith.glsl"

layout(local_size_x = 256) in;

// Declares the element's place: its plane, and its row and column there, of planes of this size.
#define HLX_PLANE_ELEMENT(height, width, own_y, own_x) \
    uint at = hlx_group() * 256u + gl_LocalInvocationID.x; \
    if (at >= push.count) return; \
    uint row = at / (width); \
    uint own_x = at - row * (width); \
    uint plane = row / (height); \
    uint own_y = row - plane * (height);

// An element of a gradient: TERM continues `sum` by the output at first + ox, over the outputs of these rows and columns in
// row-major order from +0; then -0 becomes +0.
#define HLX_SUM_OVER_OUTPUTS(dx, rows, columns, TERM) \
    precise float sum = 0.0; \
    for (uint oy = rows.x; oy < rows.y; ++oy) { \
        uint first = (plane * push.output_height + oy) * push.output_width; \
        for (uint ox = columns.x; ox < columns.y; ++ox) TERM \
    } \
    dx[at] = hlx_pos0(sum);
