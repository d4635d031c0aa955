// A step of a GRU backward; formulas in recurrent.rs.
//   gates [B, T, 4, H]; out, dout [B, T, H]; first_hidden, dhidden [B, H]; dstep [B, 3, H];
//   dx, dfrom_hidden [B, T, 3, H].
#define HLX_GATES 3u
#include "cell.glsl"

layout(set = 0, binding = 0) readonly restrict buffer Gates { float gates[]; };
layout(set = 0, binding = 1) readonly restrict buffer Out { float outputs[]; };
layout(set = 0, binding = 2) readonly restrict buffer FirstHidden { float first_hidden[]; };
layout(set = 0, binding = 3) readonly restrict buffer DOut { float doutputs[]; };
layout(set = 0, binding = 4) restrict buffer DHidden { float dhidden[]; };
layout(set = 0, binding = 5) writeonly restrict buffer DStep { float dstep[]; };
layout(set = 0, binding = 6) restrict buffer DX { float dx[]; };
layout(set = 0, binding = 7) restrict buffer DFromHidden { float dfrom_hidden[]; };

void store(uint row, uint sample_row, uint which, uint unit, float value) {
    dstep[gate(sample_row, which, unit)] = value;
    dfrom_hidden[gate(row, which, unit)] = value;
}

void step(uint row, uint sample_row, uint unit) {
    uint at = place(sample_row, unit);
    uint before = sample_row * push.time + push.previous;
    precise float earlier =
        push.previous == push.time ? first_hidden[at] : outputs[place(before, unit)];
    uint kept = row * 4u * push.width + unit;
    precise float r = gates[kept];
    precise float z = gates[kept + push.width];
    precise float n = gates[kept + 2u * push.width];
    precise float inner = gates[kept + 3u * push.width];
    precise float dh = hlx_add(doutputs[place(row, unit)], dhidden[at]);
    precise float dn = hlx_mul(hlx_mul(dh, hlx_sub(1.0, z)), tanh_slope(n));
    precise float dz = hlx_mul(hlx_mul(dh, hlx_sub(earlier, n)), sigmoid_slope(z));
    precise float dr = hlx_mul(hlx_mul(dn, inner), sigmoid_slope(r));
    dx[gate(row, 0u, unit)] = dr;
    dx[gate(row, 1u, unit)] = dz;
    dx[gate(row, 2u, unit)] = dn;
    store(row, sample_row, 0u, unit, dr);
    store(row, sample_row, 1u, unit, dz);
    store(row, sample_row, 2u, unit, hlx_mul(dn, r));
    dhidden[at] = hlx_mul(dh, z);
}
