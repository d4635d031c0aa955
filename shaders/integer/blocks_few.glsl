// A product with a weight in blocks (block_product.glsl) of few rows of a, for generation: a workgroup has 16 columns and up to
// four rows. Each of its threads has a column and one of 16 chunks, whose blocks it sums; then a thread for each row and
// column joins the blocks in order.
#include "block_product.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 10) const uint ROWS = 4;

const uint COLUMNS = PANEL;
// Chunks, blocks and groups that a workgroup sums at a time.
const uint STRIP = 256u / COLUMNS;
const uint STRIP_BLOCKS = STRIP * BLOCKS_OF_CHUNK;
const uint STRIP_GROUPS = STRIP * CHUNK / GROUP;

// By rows, blocks and columns.
shared float sums[ROWS * STRIP_BLOCKS * COLUMNS];
shared float sums_of_mins[HAS_MINS ? ROWS * STRIP_BLOCKS * COLUMNS : 1u];
shared vec2 factors[STRIP_BLOCKS * COLUMNS];
// The sums of a's digits, by rows and groups.
shared ivec2 group_sums[ROWS * STRIP_GROUPS];

void main() {
    DECLARE_PRODUCT(ROWS, COLUMNS)
    if (!locate(product, hlx_group() % down, hlx_group() / down % across, ROWS, COLUMNS)) return;
    uint n_rows = min(ROWS, tile.a_end - tile.a_first);
    uint column = gl_LocalInvocationIndex % COLUMNS;
    uint own_chunk = gl_LocalInvocationIndex / COLUMNS;
    uint chunks = chunks_of_row();
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        uint end = min((piece + 1u) * PIECE_CHUNKS, chunks);
        precise float chain = 0.0;
        for (uint first = piece * PIECE_CHUNKS; first < end; first += STRIP) {
            uint groups = min(STRIP, end - first) * (CHUNK / GROUP);
            for (uint i = gl_LocalInvocationIndex; i < n_rows * groups; i += 256u) {
                uint m = i / groups;
                uint group = i % groups;
                ivec2 sum = ivec2(0);
                [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j) {
                    uint unit = (first * (CHUNK / GROUP) + group) * UNITS_OF_GROUP + j;
                    sum.x += dot_of(a[unit_of_a(tile.a_first + m, 0u, unit)], ONES);
                    sum.y += dot_of(a[unit_of_a(tile.a_first + m, 1u, unit)], ONES);
                }
                group_sums[m * STRIP_GROUPS + group] = sum;
            }
            barrier();
            uint chunk = first + own_chunk;
            if (chunk < end) {
                uint at = chunk_at(row_of_b(column), chunk, chunks);
                [[dont_unroll]] for (uint block = 0u; block < BLOCKS_OF_CHUNK; ++block) {
                    ivec2 sum[ROWS];
                    int mins[ROWS];
                    [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
                        sum[m] = ivec2(0);
                        mins[m] = 0;
                    }
                    [[dont_unroll]] for (uint group = 0u; group < GROUPS; ++group) {
                        uint of_chunk = block * GROUPS + group;
                        uvec4 integers[UNITS_OF_GROUP];
                        [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j)
                            integers[j] = block_unit(at, of_chunk * UNITS_OF_GROUP + j);
                        int scale = block_scale(at, group);
                        int least = HAS_MINS ? block_min(at, group) : 0;
                        [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
                            if (m >= n_rows) continue;
                            ivec2 of_a = group_sums[m * STRIP_GROUPS + own_chunk * (CHUNK / GROUP) + of_chunk];
                            ivec2 own = -int(OFFSET) * of_a;
                            [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j) {
                                uint unit = chunk * (CHUNK / 16u) + of_chunk * UNITS_OF_GROUP + j;
                                own.x += dot_of(a[unit_of_a(tile.a_first + m, 0u, unit)], integers[j]);
                                own.y += dot_of(a[unit_of_a(tile.a_first + m, 1u, unit)], integers[j]);
                            }
                            sum[m] += scale * own;
                            if (HAS_MINS) mins[m] += least * (256 * of_a.x + of_a.y);
                        }
                    }
                    uint of_strip = (own_chunk * BLOCKS_OF_CHUNK + block) * COLUMNS + column;
                    factors[of_strip] = block_factors(at, block);
                    [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
                        uint to = m * STRIP_BLOCKS * COLUMNS + of_strip;
                        sums[to] = hlx_float_of_sums(sum[m].x, sum[m].y);
                        if (HAS_MINS) sums_of_mins[to] = float_of(mins[m]);
                    }
                }
            }
            barrier();
            if (own_chunk < n_rows) {
                uint blocks = min(min(STRIP, end - first) * BLOCKS_OF_CHUNK, push.blocks - first * BLOCKS_OF_CHUNK);
                for (uint block = 0u; block < blocks; ++block) {
                    uint of_strip = block * COLUMNS + column;
                    uint from = own_chunk * STRIP_BLOCKS * COLUMNS + of_strip;
                    float mins = HAS_MINS ? sums_of_mins[from] : 0.0;
                    chain = behind_block(chain, sums[from], mins, factors[of_strip]);
                }
            }
            barrier();
        }
        if (own_chunk < n_rows && tile.b_first + column < tile.b_end) {
            vec2 of_a = hlx_factors(a_exponents[row_of_a(own_chunk) * pieces() + piece]);
            finish_one(hlx_result_of_sum(chain, of_a, vec2(1.0)), piece, own_chunk, column);
        }
    }
}
