// Adafactor's direction, in place of the clipped gradient: u = u / max(sqrt(v), eps1).
//   FACTORED: v = row[r] / max(total[b] / R, eps1) col[b, c], of batches b of R rows r and C columns c.
//   Otherwise v is row, element by element.
#include "../include/math.glsl"

layout(constant_id = 0) const uint FACTORED = 1u;

layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
    uint count, first, rows, cols;
    float inverse_rows;  // 1 / R
    float epsilon;       // eps1
} push;

layout(set = 0, binding = 0) readonly restrict buffer Rows { float row[]; };
layout(set = 0, binding = 1) readonly restrict buffer Totals { float total[]; };
layout(set = 0, binding = 2) readonly restrict buffer Cols { float col[]; };
layout(set = 0, binding = 3) restrict buffer Direction { float u[]; };

void main() {
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (i >= push.count) return;
    precise float v;
    if (FACTORED != 0u) {
        uint element = push.first + i;
        uint r = element / push.cols;
        uint b = r / push.rows;
        precise float mean = hlx_mul(total[b], push.inverse_rows);
        mean = mean < push.epsilon ? push.epsilon : mean;
        v = hlx_mul(hlx_div(row[r], mean), col[b * push.cols + (element - r * push.cols)]);
    } else {
        v = row[i];
    }
    precise float root = hlx_sqrt(v);
    root = root < push.epsilon ? push.epsilon : root;
    u[i] = hlx_div(u[i], root);
}
