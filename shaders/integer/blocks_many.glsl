// A product with a weight in blocks (block_product.glsl) of many rows of a: 64 x 64 results per workgroup, 16 rows of a column
// per thread.
#include "block_product.glsl"

layout(local_size_x = 256) in;

const uint SIDE = 64u;
const uint OWN = SIDE * SIDE / 256u;
// Units of 16 terms of a group or of two that are staged at a time.
const uint STEP = 2u;
const uint STEP_GROUPS = 16u * STEP / GROUP;

// By planes, units and rows.
shared uvec4 staged[2u * STEP * SIDE];
// By planes, groups and rows.
shared int group_sums[2u * STEP_GROUPS * SIDE];

void main() {
    DECLARE_PRODUCT(SIDE, SIDE)
    if (!locate(product, hlx_group() / across % down, hlx_group() % across, SIDE, SIDE)) return;
    uint own_n = gl_LocalInvocationIndex % SIDE;
    uint own_m = gl_LocalInvocationIndex / SIDE * OWN;
    uint chunks = chunks_of_row();
    uint row_of_weight = row_of_b(own_n);
    for (uint piece = tile.first_piece; piece < tile.end_piece; ++piece) {
        precise float chains[OWN];
        [[unroll]] for (uint i = 0u; i < OWN; ++i) chains[i] = 0.0;
        uint first_block = piece * PIECE_CHUNKS * BLOCKS_OF_CHUNK;
        uint end_block = min(first_block + PIECE_CHUNKS * BLOCKS_OF_CHUNK, push.blocks);
        [[dont_unroll]] for (uint block = first_block; block < end_block; ++block) {
            uint at = chunk_at(row_of_weight, block / BLOCKS_OF_CHUNK, chunks);
            uint in_chunk = block % BLOCKS_OF_CHUNK;
            int high[OWN];
            int low[OWN];
            int mins[OWN];
            [[unroll]] for (uint i = 0u; i < OWN; ++i) {
                high[i] = 0;
                low[i] = 0;
                mins[i] = 0;
            }
            [[dont_unroll]] for (uint step = 0u; step < BLOCK / 16u / STEP; ++step) {
                uint first_unit = block * (BLOCK / 16u) + step * STEP;
                for (uint i = gl_LocalInvocationIndex; i < 2u * STEP * SIDE; i += 256u) {
                    uint plane = i / (STEP * SIDE);
                    uint unit = i / SIDE % STEP;
                    staged[i] = a[unit_of_a(row_of_a(i % SIDE), plane, first_unit + unit)];
                }
                barrier();
                for (uint i = gl_LocalInvocationIndex; i < 2u * STEP_GROUPS * SIDE; i += 256u) {
                    uint from = i / SIDE * UNITS_OF_GROUP;
                    int sum = 0;
                    [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j)
                        sum += dot_of(staged[(from + j) * SIDE + i % SIDE], ONES);
                    group_sums[i] = sum;
                }
                barrier();
                [[dont_unroll]] for (uint group = 0u; group < STEP_GROUPS; ++group) {
                    uint of_block = step * STEP_GROUPS + group;
                    uvec4 integers[UNITS_OF_GROUP];
                    [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j)
                        integers[j] = block_unit(at, (in_chunk * GROUPS + of_block) * UNITS_OF_GROUP + j);
                    int scale = block_scale(at, of_block);
                    int least = HAS_MINS ? block_min(at, of_block) : 0;
                    [[unroll]] for (uint i = 0u; i < OWN; ++i) {
                        uint row = own_m + i;
                        int upper = group_sums[group * SIDE + row];
                        int lower = group_sums[(STEP_GROUPS + group) * SIDE + row];
                        if (HAS_MINS) mins[i] += least * (256 * upper + lower);
                        upper *= -int(OFFSET);
                        lower *= -int(OFFSET);
                        [[unroll]] for (uint j = 0u; j < UNITS_OF_GROUP; ++j) {
                            uint unit = group * UNITS_OF_GROUP + j;
                            upper += dot_of(staged[unit * SIDE + row], integers[j]);
                            lower += dot_of(staged[(STEP + unit) * SIDE + row], integers[j]);
                        }
                        high[i] += scale * upper;
                        low[i] += scale * lower;
                    }
                }
                barrier();
            }
            vec2 factors = block_sum_factors(at, in_chunk);
            [[unroll]] for (uint i = 0u; i < OWN; ++i) {
                float of_mins = HAS_MINS ? float_of(mins[i]) : 0.0;
                chains[i] = behind_block(chains[i], hlx_float_of_sums(high[i], low[i]), of_mins, factors);
            }
        }
        if (tile.b_first + own_n >= tile.b_end) continue;
        [[unroll]] for (uint i = 0u; i < OWN; ++i) {
            if (tile.a_first + own_m + i >= tile.a_end) continue;
            vec2 of_a = hlx_factors(a_exponents[row_of_a(own_m + i) * pieces() + piece]);
            finish_one(hlx_result_of_sum(chains[i], of_a, vec2(1.0)), piece, own_m + i, own_n);
        }
    }
}
