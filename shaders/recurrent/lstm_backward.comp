// A step of an LSTM backward; formulas in recurrent.rs.
//   gates, dgates [B, T, 4, H]; out, dout [2, B, T, H]: h, then c; first_cell, dhidden, dcell [B, H];
//   dstep [B, 4, H].
#define HLX_GATES 4u
#include "cell.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Gates { float gates[]; };
layout(set = 0, binding = 1) readonly restrict buffer Out { float outputs[]; };
layout(set = 0, binding = 2) readonly restrict buffer FirstCell { float first_cell[]; };
layout(set = 0, binding = 3) readonly restrict buffer DOut { float doutputs[]; };
layout(set = 0, binding = 4) readonly restrict buffer DHidden { float dhidden[]; };
layout(set = 0, binding = 5) restrict buffer DCell { float dcell[]; };
layout(set = 0, binding = 6) writeonly restrict buffer DStep { float dstep[]; };
layout(set = 0, binding = 7) restrict buffer DGates { float dgates[]; };

void store(uint row, uint sample_row, uint which, uint unit, float value) {
    dstep[gate(sample_row, which, unit)] = value;
    dgates[gate(row, which, unit)] = value;
}

void step(uint row, uint sample_row, uint unit) {
    uint at = place(sample_row, unit);
    uint cells = push.batch * push.time;
    uint before = sample_row * push.time + push.previous;
    precise float c = outputs[place(cells + row, unit)];
    precise float earlier =
        push.previous == push.time ? first_cell[at] : outputs[place(cells + before, unit)];
    precise float i = gates[gate(row, 0u, unit)];
    precise float f = gates[gate(row, 1u, unit)];
    precise float g = gates[gate(row, 2u, unit)];
    precise float o = gates[gate(row, 3u, unit)];
    precise float curve = hlx_tanh(c);
    precise float dh = hlx_add(doutputs[place(row, unit)], dhidden[at]);
    precise float dc = hlx_add(doutputs[place(cells + row, unit)], dcell[at]);
    dc = hlx_fma(hlx_mul(dh, o), tanh_slope(curve), dc);
    store(row, sample_row, 0u, unit, hlx_mul(hlx_mul(dc, g), sigmoid_slope(i)));
    store(row, sample_row, 1u, unit, hlx_mul(hlx_mul(dc, earlier), sigmoid_slope(f)));
    store(row, sample_row, 2u, unit, hlx_mul(hlx_mul(dc, i), tanh_slope(g)));
    store(row, sample_row, 3u, unit, hlx_mul(hlx_mul(dh, curve), sigmoid_slope(o)));
    dcell[at] = hlx_mul(dc, f);
}
