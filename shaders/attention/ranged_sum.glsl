// Attention over ranges, a gradient from stored weights (ranged_weights.glsl):
//   out[row] = (sum over the terms that the row sees, in order, of weights[term, row] columns[term]) * scale
// one chain over the stored heads of the row's head in order, and in each over the terms.
//   dQ: rows are queries, terms keys, columns k, weights ds;
//   dK: rows are keys, terms queries, columns q, weights ds; dV: columns do, weights w, scale 1.
// With OUTPUT, of the forward, from the weights and the corrections of ranged_softmax.comp: before the first term
// of a block of 32 that a row sees its sum is multiplied by the block's correction, and at the end divided by l.
// weights: [stored heads, terms, rows]; corrections: [stored heads, terms / 32, rows]; columns by strides; ranges of terms: [B, rows, 4];
// out: [B, rows, heads, D]. 128 rows and 64 of D a workgroup.
#include "../include/arith.glsl"
#include "../include/math.glsl"
#include "terms.glsl"

layout(push_constant) uniform Push {
    uint rows, terms;
    uint heads;         // of the rows
    uint repeats;       // stored heads of one of them
    uint column_group;  // stored heads of one head of the columns
    uint first_head;    // of the heads of all samples that are computed
    uint n_heads;
    // The first element, and the strides of samples, positions and heads.
    uint columns_first, columns_batch, columns_position, columns_head;
    // The last rows, which see most terms, go first.
    uint last_first;
    float scale;
} push;

layout(set = 0, binding = 0) readonly buffer Weights { vec4 weights[]; };
layout(set = 0, binding = 1) readonly buffer Columns { vec4 columns[]; };
layout(set = 0, binding = 2) readonly buffer Ranges { uvec4 ranges[]; };
#ifdef OUTPUT
layout(set = 0, binding = 3) buffer Out { vec4 result[]; };
#else
layout(set = 0, binding = 3) writeonly buffer Out { vec4 result[]; };
#endif
#ifdef OUTPUT
layout(set = 0, binding = 4) readonly buffer Corrections { float corrections[]; };
layout(set = 0, binding = 5) readonly buffer Sums { float all_sums[]; };

const uint BLOCK = 32u;
// The correction of a row for the block that begins with a term.
#define CORRECTION(term, row) \
    corrections[(head_idx * ((push.terms + BLOCK - 1u) / BLOCK) + (term) / BLOCK) * push.rows + (row)]
#define CORRECT(r, factor)                                                       \
    EACH(u, 2u, sums[r][u] = mul4(sums[r][u], factor);)
#endif

#define FETCH(repeat, term0)                                                     \
    {                                                                            \
        uint weights_at = (((head_idx * push.repeats + (repeat)) * push.terms + (term0) + ROW_TERM) \
                           * push.rows + row0 + ROW_PLACE) / 4u;                 \
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {                              \
            next_rows[i] = vec4(0.0);                                            \
            if (row0 + ROW_PLACE < push.rows && (term0) + ROW_TERM + 4u * i < push.terms) \
                next_rows[i] = weights[weights_at + i * push.rows];              \
        }                                                                        \
        uint term = (term0) + COLUMN_TERM;                                       \
        uint column_head = (head * push.repeats + (repeat)) / push.column_group; \
        next_columns = vec4(0.0);                                                \
        if (term < push.terms && d_own < D)                                      \
            next_columns = columns[(columns_at + column_head * push.columns_head \
                                    + term * push.columns_position) / 4u];       \
    }

// The vector of row and column d of the result.
#define PLACE(row, d) ((((sample_idx * push.rows + (row)) * push.heads + head) * D + (d)) / 4u)

#define SEEN(r, k) (term0 + (k) >= low[r] && term0 + (k) < high[r])

void main() {
    uint chunks = (D + COLUMNS - 1u) / COLUMNS;
    uint tiles = (push.rows + ROWS - 1u) / ROWS;
    uint d0 = hlx_group() % chunks * COLUMNS;
    uint head_idx = hlx_group() / chunks % push.n_heads;
    uint tile = hlx_group() / (chunks * push.n_heads);
    if (tile >= tiles) return;
    uint row0 = (push.last_first != 0u ? tiles - 1u - tile : tile) * ROWS;
    uint sample_idx = (push.first_head + head_idx) / push.heads;
    uint head = (push.first_head + head_idx) % push.heads;

    uint own_row = row0 + gl_LocalInvocationIndex;
    uint ranges_at = sample_idx * push.rows;
    bool exists = own_row < push.rows;
    uvec2 own_range = exists ? ranges[ranges_at + own_row].yz : uvec2(0u);
    uvec4 bounds = joined_ranges(own_range, exists);

    uint first_term = bounds.x;
#ifdef OUTPUT
    // Rows of one document begin their blocks together: steps then begin with them.
    uvec2 own_origin = exists ? ranges[ranges_at + own_row].xx + uvec2(0u, 1u) : uvec2(0u);
    uvec4 origins = joined_ranges(own_origin, exists && own_range.x < own_range.y);
    uint origin = origins.x;
    bool together = origins.y == origins.x + 1u;
    if (together) first_term -= (first_term - origin) % BLOCK;
#endif

    uint row_unit = thread_row_unit();
    uint column_unit = thread_column_unit();
    uint d_own = d0 + COLUMN_PLACE;
    uint columns_at = push.columns_first + sample_idx * push.columns_batch + d_own;
    precise vec4 sums[8][2];
    CLEAR(sums, 8u)
    if (bounds.x < bounds.y) {
        vec4 next_rows[2];
        vec4 next_columns;
        uint current = 0u;
        uint repeat = 0u;
        uint term0 = first_term;
        FETCH(0u, term0)
        KEEP_STEP(0u)
        barrier();
        while (repeat < push.repeats) {
            uint next_repeat = repeat;
            uint next_term = term0 + STEP;
            if (next_term >= bounds.y) {
                next_term = first_term;
                ++next_repeat;
            }
            if (next_repeat < push.repeats) FETCH(next_repeat, next_term)
#ifdef OUTPUT
            if (together && (term0 - origin) % BLOCK == 0u) {
                EACH(r, 8u,
                    uint row = min(row0 + ROW_OF(r), push.rows - 1u);
                    uvec4 range = ranges[ranges_at + row];
                    if (range.y < term0 + BLOCK && range.z > term0) {
                        precise float factor = CORRECTION(term0, row);
                        CORRECT(r, factor)
                    }
                )
            }
            if (!together) {
                // Each row has its own blocks.
                EACH(k, STEP,
                    uint term = term0 + k;
                    EACH(r, 8u,
                        uint row = min(row0 + ROW_OF(r), push.rows - 1u);
                        uvec4 range = ranges[ranges_at + row];
                        if (term >= range.y && term < range.z) {
                            uint place = (term - range.x) % BLOCK;
                            if (place == 0u || term == range.y) {
                                precise float factor = CORRECTION(term - place, row);
                                CORRECT(r, factor)
                            }
                            uint at = (current * STEP + k) * ROW_UNITS + row_unit + 8u * (r / 4u);
                            float x = row_tile[at][r % 4u];
                            EACH(u, 2u,
                                vec4 y = column_tile[(current * STEP + k) * COLUMN_UNITS + column_unit + 4u * u];
                                sums[r][u] = fma4(x, y, sums[r][u]);
                            )
                        }
                    )
                )
            } else
#endif
            if (term0 >= bounds.z && term0 + STEP <= bounds.w) {
                ADD_STEP(sums, current, ALWAYS)
            } else {
                uint low[8];
                uint high[8];
                bool busy = false;
                [[unroll]] for (uint r = 0u; r < 8u; ++r) {
                    uvec4 range = ranges[ranges_at + min(row0 + ROW_OF(r), push.rows - 1u)];
                    low[r] = range.y;
                    high[r] = range.z;
                    busy = busy || (low[r] < term0 + STEP && high[r] > term0);
                }
                if (busy) ADD_STEP(sums, current, SEEN)
            }
            current ^= 1u;
            KEEP_STEP(current)
            barrier();
            repeat = next_repeat;
            term0 = next_term;
        }
    }

#ifdef OUTPUT
#define FINISHED(sum) (sum)
#else
#define FINISHED(sum) mul4(pos0_4(sum), push.scale)
#endif
    EACH(r, 8u,
        uint row = row0 + ROW_OF(r);
        if (row < push.rows) {
            EACH(u, 2u,
                uint d = d0 + COLUMN_OF(u);
                if (d < D) result[PLACE(row, d)] = FINISHED(sums[r][u]);
            )
        }
    )
#ifdef OUTPUT
    // A thread divides what it has stored. A loop with a division over the sums themselves is too long for a
    // driver to unroll: the sums would lie in memory, from the first term on.
    [[dont_unroll]] for (uint i = 0u; i < 16u; ++i) {
        uint row = row0 + ROW_OF(i / 2u);
        uint d = d0 + COLUMN_OF(i % 2u);
        if (row < push.rows && d < D) {
            // A row that sees no term keeps its zeros.
            uvec4 seen = ranges[ranges_at + row];
            precise float l = seen.y < seen.z ? all_sums[head_idx * push.rows + row] : 1.0;
            precise vec4 quotient = result[PLACE(row, d)];
            EACH(c, 4u, quotient[c] = hlx_div(quotient[c], l);)
            result[PLACE(row, d)] = mul4(pos0_4(quotient), push.scale);
        }
    }
#endif
}
