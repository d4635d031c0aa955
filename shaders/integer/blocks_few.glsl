// A product with a weight in blocks (block_product.glsl) of few rows of a, for generation: a workgroup has 16 columns and up to
// four rows. Each of its threads has a column and one of 16 places in a strip of chunks, whose words it loads at once and holds;
// then a thread for each row and column joins the strip's blocks in order. With FRESH each workgroup makes the integers of its
// rows for itself (fresh_rows.glsl).
layout(constant_id = 12) const uint OWN_CHUNKS = 1;
#define HELD_CHUNKS OWN_CHUNKS
#include "block_product.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 10) const uint ROWS = 4;
#ifdef FRESH
layout(constant_id = 11) const uint HELD = 8;
#endif
#include "fresh_rows.glsl"

const uint COLUMNS = PANEL;
const uint LANES = 256u / COLUMNS;
// Chunks, blocks and groups of a strip. A piece is whole strips.
const uint STRIP = LANES * OWN_CHUNKS;
const uint STRIP_BLOCKS = STRIP * BLOCKS_OF_CHUNK;
const uint CHUNK_GROUPS = CHUNK / GROUP;
const uint STRIP_GROUPS = STRIP * CHUNK_GROUPS;
const bool HAS_GROUP_SUMS = HAS_MINS || OFFSET != 0u;

// By rows, blocks and columns.
shared float sums[ROWS * STRIP_BLOCKS * COLUMNS];
shared float sums_of_mins[HAS_MINS ? ROWS * STRIP_BLOCKS * COLUMNS : 1u];
shared float ds[STRIP_BLOCKS * COLUMNS];
shared float dmins[HAS_MINS ? STRIP_BLOCKS * COLUMNS : 1u];
// The sums of a's digits, by rows and groups.
shared ivec2 group_sums[HAS_GROUP_SUMS ? ROWS * STRIP_GROUPS : 1u];

// Loads the thread's chunks of the strip that begins with chunk `first`.
#define LOAD_STRIP(first)                                                                                       \
    [[unroll]] for (uint own = 0u; own < OWN_CHUNKS; ++own) {                                                   \
        uint from = chunk_at(row_of_b(column), min((first) + lane + own * LANES, chunks - 1u), chunks);         \
        [[unroll]] for (uint word = 0u; word < CHUNK_WORDS; ++word)                                             \
            held[own * CHUNK_WORDS + word] = block_words[from + word * PANEL];                                  \
    }

void main() {
    DECLARE_PRODUCT(ROWS, COLUMNS)
    if (!locate(product, hlx_group() % down, hlx_group() / down % across, ROWS, COLUMNS)) return;
    uint n_rows = min(ROWS, tile.a_end - tile.a_first);
    uint column = gl_LocalInvocationIndex % COLUMNS;
    uint lane = gl_LocalInvocationIndex / COLUMNS;
    uint chunks = chunks_of_row();
    LOAD_STRIP(0u)
#ifdef FRESH
    prepare_rows();
#endif
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        uint end = min((piece + 1u) * PIECE_CHUNKS, chunks);
        precise float chain = 0.0;
        for (uint first = piece * PIECE_CHUNKS; first < end; first += STRIP) {
            if (HAS_GROUP_SUMS) {
                uint groups = min(STRIP, end - first) * CHUNK_GROUPS;
                for (uint i = gl_LocalInvocationIndex; i < n_rows * groups; i += 256u) {
                    uint m = i / groups;
                    uint group = i % groups;
                    ivec2 sum = ivec2(0);
                    [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j) {
                        uint unit = (first * CHUNK_GROUPS + group) * UNITS_OF_GROUP + j;
                        sum.x += dot_of(A_UNIT(m, 0u, unit), ONES);
                        sum.y += dot_of(A_UNIT(m, 1u, unit), ONES);
                    }
                    group_sums[m * STRIP_GROUPS + group] = sum;
                }
                barrier();
            }
            [[unroll]] for (uint own = 0u; own < OWN_CHUNKS; ++own) {
                uint of_strip = lane + own * LANES;
                uint chunk = first + of_strip;
                if (chunk >= end) continue;
                uint at = own * CHUNK_WORDS;
                [[unroll]] for (uint block = 0u; block < BLOCKS_OF_CHUNK; ++block) {
                    ivec2 sum[ROWS];
                    int mins[ROWS];
                    [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
                        sum[m] = ivec2(0);
                        mins[m] = 0;
                    }
                    [[unroll]] for (uint group = 0u; group < GROUPS; ++group) {
                        uint of_chunk = block * GROUPS + group;
                        uvec4 integers[UNITS_OF_GROUP];
                        [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j)
                            integers[j] = block_unit(at, of_chunk * UNITS_OF_GROUP + j);
                        int scale = block_scale(at, group);
                        int least = HAS_MINS ? block_min(at, group) : 0;
                        [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
                            if (m > 0u && m >= n_rows) continue;
                            ivec2 of_a = ivec2(0);
                            if (HAS_GROUP_SUMS) of_a = group_sums[m * STRIP_GROUPS + of_strip * CHUNK_GROUPS + of_chunk];
                            ivec2 of_group = -int(OFFSET) * of_a;
                            [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j) {
                                uint unit = chunk * (CHUNK / 16u) + of_chunk * UNITS_OF_GROUP + j;
                                of_group.x += dot_of(A_UNIT(m, 0u, unit), integers[j]);
                                of_group.y += dot_of(A_UNIT(m, 1u, unit), integers[j]);
                            }
                            sum[m] += scale * of_group;
                            if (HAS_MINS) mins[m] += least * (256 * of_a.x + of_a.y);
                        }
                    }
                    uint to = (of_strip * BLOCKS_OF_CHUNK + block) * COLUMNS + column;
                    vec2 factors = block_sum_factors(at, block);
                    ds[to] = factors.x;
                    if (HAS_MINS) dmins[to] = factors.y;
                    [[unroll]] for (uint m = 0u; m < ROWS; ++m) {
                        uint of_row = m * STRIP_BLOCKS * COLUMNS + to;
                        sums[of_row] = hlx_float_of_sums(sum[m].x, sum[m].y);
                        if (HAS_MINS) sums_of_mins[of_row] = float_of(mins[m]);
                    }
                }
            }
            // The next strip's words are under way while the blocks are joined.
            LOAD_STRIP(first + STRIP)
            barrier();
            if (lane < n_rows) {
                uint blocks = min(min(STRIP, end - first) * BLOCKS_OF_CHUNK, push.blocks - first * BLOCKS_OF_CHUNK);
                [[unroll]] for (uint block = 0u; block < STRIP_BLOCKS; ++block) {
                    if (block >= blocks) break;
                    uint of_strip = block * COLUMNS + column;
                    uint from = lane * STRIP_BLOCKS * COLUMNS + of_strip;
                    float mins = HAS_MINS ? sums_of_mins[from] : 0.0;
                    vec2 factors = vec2(ds[of_strip], HAS_MINS ? dmins[of_strip] : 0.0);
                    chain = behind_block(chain, sums[from], mins, factors);
                }
            }
            barrier();
        }
        if (lane < n_rows && tile.b_first + column < tile.b_end) {
            vec2 of_a = hlx_factors(EXPONENT_OF_A(lane, piece));
            finish_one(hlx_result_of_sum(chain, of_a, vec2(1.0)), piece, lane, column);
        }
    }
}
