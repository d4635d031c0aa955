// A workgroup's rows in attention over ranges: their ranges of columns, and the segments of rows whose
// blocks of columns count from the same first column.

// (the document's first key, begin, end, the position) of each row (ranges.glsl).
shared uvec4 tile_ranges[ROWS];

// The segment at hand: neighbouring rows whose blocks are the same. No struct: glslang does not return
// from following `precise` through one that a loop carries.
uint segment_end;   // past its last row, within the tile
uint first_column;  // of its first block
uint end_column;
uint inner_begin;   // every row of the tile sees the columns inner_begin .. inner_end - 1
uint inner_end;

// Loads the ranges of the tile's n rows.
#define LOAD_RANGES(ranges, first, n)                                            \
    for (uint at = gl_LocalInvocationIndex; at < ROWS; at += THREADS)            \
        tile_ranges[at] = at < (n) ? ranges[(first) + at] : uvec4(0u);           \
    barrier();

// Finds the segment of the rows from `start` on: those of one document, whose blocks count from its first
// key, or all.
void find_segment(uint start, uint n, bool of_document) {
    segment_end = start;
    first_column = 0xffffffffu;
    end_column = 0u;
    inner_begin = 0u;
    inner_end = 0xffffffffu;
    uint origin = tile_ranges[start].x;
    while (segment_end < n && (!of_document || tile_ranges[segment_end].x == origin)) {
        uvec4 range = tile_ranges[segment_end];
        if (range.y < range.z) {
            first_column = min(first_column, range.y);
            end_column = max(end_column, range.z);
        }
        inner_begin = max(inner_begin, range.y);
        inner_end = min(inner_end, range.z);
        ++segment_end;
    }
    if (of_document && first_column < end_column) first_column -= (first_column - origin) % COLS;
    if (segment_end - start < n) inner_end = 0u;
}

// For each row of the thread the columns low .. high - 1 of the block at column0 that it sees; whether
// any of its rows sees one.
#define SEEN_COLUMNS(start, column0)                                             \
    bool busy = !edge;                                                           \
    [[unroll]] for (uint r = 0u; r < THREAD_ROWS; ++r) {                         \
        uvec4 range = tile_ranges[ROW(r)];                                       \
        bool inside = ROW(r) >= (start) && ROW(r) < segment_end;                 \
        low[r] = inside ? max(range.y, column0) - (column0) : 0u;                \
        high[r] = inside ? max(min(range.z, (column0) + COLS), column0) - (column0) : 0u; \
        busy = busy || low[r] < high[r];                                         \
    }

// The tile of queries of a workgroup. The last ones of all heads, which see most keys if attention is causal, go first.
#define OWN_QUERIES                                                              \
    uint tx = thread_tx();                                                       \
    uint first_row = thread_first_row();                                         \
    uint tiles = (push.queries + ROWS - 1u) / ROWS;                              \
    uint all_heads = push.batch * push.heads;                                    \
    uint tile = hlx_group() / all_heads;                                         \
    if (tile >= tiles) return;                                                   \
    uint sample_idx = hlx_group() % all_heads / push.heads;                      \
    uint head = hlx_group() % push.heads;                                        \
    uint row0 = (tiles - 1u - tile) * ROWS;                                      \
    uint n = min(ROWS, push.queries - row0);                                     \
    LOAD_RANGES(ranges, sample_idx * push.queries + row0, n)
