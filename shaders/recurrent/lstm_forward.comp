// A step of an LSTM; formulas in recurrent.rs.
//   x, gates [B, T, 4, H]; from_hidden [B, 4, H]; cell, hidden [B, H]; out [2, B, T, H]: h, then c.
#define HLX_GATES 4u
#include "cell.glsl"

layout(set = 0, binding = 0) readonly restrict buffer X { float x[]; };
layout(set = 0, binding = 1) readonly restrict buffer FromHidden { float from_hidden[]; };
layout(set = 0, binding = 2) restrict buffer Cell { float cell[]; };
layout(set = 0, binding = 3) writeonly restrict buffer Hidden { float hidden[]; };
layout(set = 0, binding = 4) restrict buffer Gates { float gates[]; };
layout(set = 0, binding = 5) restrict buffer Out { float outputs[]; };

float sum_of(uint row, uint sample_row, uint which, uint unit) {
    return hlx_add(x[gate(row, which, unit)], from_hidden[gate(sample_row, which, unit)]);
}

void step(uint row, uint sample_row, uint unit) {
    precise float i = hlx_sigmoid(sum_of(row, sample_row, 0u, unit));
    precise float f = hlx_sigmoid(sum_of(row, sample_row, 1u, unit));
    precise float g = hlx_tanh(sum_of(row, sample_row, 2u, unit));
    precise float o = hlx_sigmoid(sum_of(row, sample_row, 3u, unit));
    uint at = place(sample_row, unit);
    precise float c = hlx_fma(f, cell[at], hlx_mul(i, g));
    precise float h = hlx_mul(o, hlx_tanh(c));
    cell[at] = c;
    hidden[at] = h;
    gates[gate(row, 0u, unit)] = i;
    gates[gate(row, 1u, unit)] = f;
    gates[gate(row, 2u, unit)] = g;
    gates[gate(row, 3u, unit)] = o;
    outputs[place(row, unit)] = h;
    outputs[place(push.batch * push.time + row, unit)] = c;
}
