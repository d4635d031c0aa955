// 1 / sqrt(mean of the squares + eps) of a row of x, whose elements lie from base on; none from column `end` on. A shader
// includes reduce.glsl, or with HELD held_row.glsl, and declares x and the push constants cols and eps.
#ifdef HELD
// v becomes x.
float statistics(uint base, inout float v[HLX_HELD]) {
    HLX_EACH(i) if (hlx_has(i)) v[i] = x[base + hlx_col(i)];
    HLX_START(squares, 0.0)
    HLX_EACH(i) if (hlx_has(i))
        squares[HLX_LANE(i)] = hlx_add(squares[HLX_LANE(i)], hlx_mul(v[i], v[i]));
    precise float square = hlx_div(hlx_reduce(squares, 0u, false), float(COLS));
    return hlx_div(1.0, hlx_sqrt(hlx_add(square, push.eps)));
}
#else
float statistics(uint base, uint end) {
    precise vec4 lanes = vec4(0.0);
    for (uint first = hlx_row_thread(); first < end; first += HLX_LANES)
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint col = first + 32u * j;
            if (col < end)
                lanes[j] = hlx_add(lanes[j], hlx_mul(x[base + col], x[base + col]));
        }
    precise float square = hlx_div(hlx_row_sum(lanes), float(push.cols));
    return hlx_div(1.0, hlx_sqrt(hlx_add(square, push.eps)));
}
#endif
