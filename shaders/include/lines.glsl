// Where the lines of a strided operand begin: a line runs along one axis (or several), and the other
// dimensions number the lines in row-major order.
//
// The push constants have HLX_LINE_MEMBERS; HLX_LINE_DIMS is how many dimensions are those of lines, n_dims if a shader does
// not say it. Places are counted in elements and wrap, so a stride may be negative.
#ifndef HLX_LINE_DIMS
#define HLX_LINE_DIMS push.n_dims
#endif

uint hlx_line_place(uint line) {
    uint place = push.first;
    for (uint d = HLX_LINE_DIMS; d > 0u; --d) {
        uint rest = line / push.extents[d - 1u];
        place += (line - rest * push.extents[d - 1u]) * push.strides[d - 1u];
        line = rest;
    }
    return place;
}
