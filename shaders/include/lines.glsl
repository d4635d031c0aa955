// Where the lines of a strided operand begin: a line runs along one axis (or several), and the other
// dimensions number the lines in row-major order.
//
// The push constants have `first`, `extents` and `strides`; HLX_LINE_DIMS is how many of them are
// the lines' dimensions. Places are counted in elements and wrap, so a stride may be negative.

uint hlx_line_place(uint line) {
    uint place = push.first;
    for (uint d = HLX_LINE_DIMS; d > 0u; --d) {
        uint rest = line / push.extents[d - 1u];
        place += (line - rest * push.extents[d - 1u]) * push.strides[d - 1u];
        line = rest;
    }
    return place;
}
