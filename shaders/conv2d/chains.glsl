// The chains of a tile, one per element over the terms in order: the loop of matmul/product.glsl with
// loads of its own, for convolutions and products of experts.
//
// The including file defines
//   void prepare(uvec2 corner)          what a thread holds of its place
//   vec4 load_rows(uint row, uint k)    the factors of a row for the terms k, k + 1, k + 2, k + 3; with
//                                       TRANS_A those of four rows for the term k
//   vec4 load_columns(uint l, Place p)  the other factors: four columns, with TRANS_B four terms; l
//                                       counts the vectors that a thread loads in a step
//   float start(uint row, uint column)  where a chain starts, if not at zero
//   void store_row(uint row, uint column, vec4 v)
// and, with RUNS, whose chains are cut into runs that are added in order,
//   uint runs()                         runs of an element's chain
//   uint prepare_run(uint run)          what a thread holds of a run; returns its terms

#define FETCH(k_first)                                                                            \
    [[unroll]] for (uint l = 0u; l < LOADS_A; ++l) {                                              \
        Place p = place_of(l, !TRANS_A, TILE_M);                                                  \
        a_staged[l] = load_rows(corner.x + p.outer, (k_first) + p.k);                             \
    }                                                                                             \
    [[unroll]] for (uint l = 0u; l < LOADS_B; ++l) {                                              \
        Place p = place_of(l, TRANS_B, TILE_N);                                                   \
        b_staged[l] = load_columns(l, Place(corner.y + p.outer, (k_first) + p.k));                \
    }
#define FETCH_NEXT(k_first, more) FETCH(k_first)

#ifndef RUNS
const bool SUMMED = false;
uint runs() { return 1u; }
uint prepare_run(uint run) { return push.k; }
#endif

void main() {
    DECLARE_UNIT
    uvec2 corner = uvec2(gl_WorkGroupID.y * TILE_M,
                         gl_WorkGroupID.x * TILE_N + push.column_first);
    prepare(corner);

    precise float acc[THREAD_M][THREAD_N];
    precise float total[THREAD_M][THREAD_N];
    [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
        [[unroll]] for (uint j = 0u; j < THREAD_N; ++j) {
            uint m = ROW_OF(i);
            uint n = COLUMN_OF(j / 4u) + j % 4u;
            float first = 0.0;
            if (START != 0u && m < push.m && n < push.n) first = start(m, n);
            acc[i][j] = SUMMED ? 0.0 : first;
            total[i][j] = first;
        }
    }

    vec4 a_staged[LOADS_A];
    vec4 b_staged[LOADS_B];
    uint n_runs = runs();
    for (uint run = 0u; run < n_runs; ++run) {
        uint steps = (prepare_run(run) + K_STEP - 1u) / K_STEP;
        STEPS(steps)
        if (SUMMED) {
            [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
                [[unroll]] for (uint j = 0u; j < THREAD_N; ++j) {
                    total[i][j] = hlx_add(total[i][j], acc[i][j]);
                    acc[i][j] = 0.0;
                }
            }
            // The next run's first terms go where the last step's are read.
            if (!EVEN) barrier();
        }
    }

    [[unroll]] for (uint g = 0u; g < GROUPS_N; ++g) {
        [[unroll]] for (uint i = 0u; i < THREAD_M; ++i) {
            vec4 v;
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                uint column = 4u * g + j;
                v[j] = hlx_pos0(SUMMED ? total[i][column] : acc[i][column]);
            }
            if (ROW_OF(i) < push.m) store_row(ROW_OF(i), COLUMN_OF(g), v);
        }
    }
}
