// A step of a GRU; formulas in recurrent.rs.
//   x [B, T, 3, H]; from_hidden [B, 3, H]; hidden [B, H]; gates [B, T, 4, H]; out [B, T, H].
#define HLX_GATES 3u
#include "cell.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer FromHidden { float from_hidden[]; };
layout(set = 0, binding = 2) restrict buffer Hidden { float hidden[]; };
layout(set = 0, binding = 3) restrict buffer Gates { float gates[]; };
layout(set = 0, binding = 4) restrict buffer Out { float outputs[]; };

float sum_of(uint row, uint sample_row, uint which, uint unit) {
    return hlx_add(x[gate(row, which, unit)], from_hidden[gate(sample_row, which, unit)]);
}

void step(uint row, uint sample_row, uint unit) {
    precise float r = hlx_sigmoid(sum_of(row, sample_row, 0u, unit));
    precise float z = hlx_sigmoid(sum_of(row, sample_row, 1u, unit));
    precise float inner = from_hidden[gate(sample_row, 2u, unit)];
    precise float n = hlx_tanh(hlx_fma(r, inner, x[gate(row, 2u, unit)]));
    uint at = place(sample_row, unit);
    precise float h = hlx_fma(z, hlx_sub(hidden[at], n), n);
    hidden[at] = h;
    uint kept = row * 4u * push.width + unit;
    gates[kept] = r;
    gates[kept + push.width] = z;
    gates[kept + 2u * push.width] = n;
    gates[kept + 3u * push.width] = inner;
    outputs[place(row, unit)] = h;
}
