// The statistics of a row of x, whose elements lie from base on, none from column `end` on: rstd = 1 / sqrt(variance + eps),
// where the variance of an RMS norm is the mean square; before it, in a layer norm, the mean. A shader includes kind.glsl
// first and declares x and the push constants cols and eps.
#if defined(HELD) && defined(CENTRED)
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
#elif defined(HELD)
// v becomes x.
float statistics(uint base, inout float v[HLX_HELD]) {
    HLX_EACH(i) if (hlx_has(i)) v[i] = x[base + hlx_col(i)];
    HLX_START(squares, 0.0)
    HLX_EACH(i) if (hlx_has(i))
        squares[HLX_LANE(i)] = hlx_add(squares[HLX_LANE(i)], hlx_mul(v[i], v[i]));
    precise float square = hlx_div(hlx_reduce(squares, 0u, false), float(COLS));
    return hlx_div(1.0, hlx_sqrt(hlx_add(square, push.eps)));
}
#elif defined(CENTRED)
vec2 statistics(uint base, uint end) {
    precise float n = float(push.cols);
    precise vec4 lanes = vec4(0.0);
    HLX_EACH_LANE(col, end, lanes[j] = hlx_add(lanes[j], x[base + col]);)
    precise float mean = hlx_div(hlx_row_sum(lanes), n);
    lanes = vec4(0.0);
    HLX_EACH_LANE(col, end, {
        precise float d = hlx_sub(x[base + col], mean);
        lanes[j] = hlx_add(lanes[j], hlx_mul(d, d));
    })
    precise float variance = hlx_div(hlx_row_sum(lanes), n);
    return vec2(mean, hlx_div(1.0, hlx_sqrt(hlx_add(variance, push.eps))));
}
#else
float statistics(uint base, uint end) {
    precise vec4 lanes = vec4(0.0);
    HLX_EACH_LANE(col, end, lanes[j] = hlx_add(lanes[j], hlx_mul(x[base + col], x[base + col]));)
    precise float square = hlx_div(hlx_row_sum(lanes), float(push.cols));
    return hlx_div(1.0, hlx_sqrt(hlx_add(square, push.eps)));
}
#endif
