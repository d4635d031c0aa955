// Mean and 1 / sqrt(variance + eps) of a row of x, whose elements lie from base on; none from column `end` on. A shader
// includes reduce.glsl, or with HELD held_row.glsl, and declares x and the push constants cols and eps.
#ifdef HELD
// v becomes x - mean.
vec2 statistics(uint base, inout float v[HLX_HELD]) {
    precise float n = float(COLS);
    HLX_EACH(i) if (hlx_has(i)) v[i] = x[base + hlx_col(i)];
    HLX_START(sums, 0.0)
    HLX_EACH(i) if (hlx_has(i)) sums[HLX_LANE(i)] = hlx_add(sums[HLX_LANE(i)], v[i]);
    precise float mean = hlx_div(hlx_reduce(sums, 0u, false), n);

    HLX_START(squares, 0.0)
    HLX_EACH(i) if (hlx_has(i)) {
        v[i] = hlx_sub(v[i], mean);
        squares[HLX_LANE(i)] = hlx_add(squares[HLX_LANE(i)], hlx_mul(v[i], v[i]));
    }
    precise float variance = hlx_div(hlx_reduce(squares, 1u, false), n);
    return vec2(mean, hlx_div(1.0, hlx_sqrt(hlx_add(variance, push.eps))));
}
#else
vec2 statistics(uint base, uint end) {
    precise float n = float(push.cols);
    precise vec4 lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) lanes[j] = hlx_add(lanes[j], x[base + col]);
        }
    precise float mean = hlx_div(hlx_row_sum(lanes), n);

    lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end) {
                precise float d = hlx_sub(x[base + col], mean);
                lanes[j] = hlx_add(lanes[j], hlx_mul(d, d));
            }
        }
    precise float variance = hlx_div(hlx_row_sum(lanes), n);
    return vec2(mean, hlx_div(1.0, hlx_sqrt(hlx_add(variance, push.eps))));
}
#endif
