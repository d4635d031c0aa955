// Rows of D columns as vectors of four, and what all kernels of attention compute alike. The including
// file has D and VECTOR: whether rows begin at multiples of four elements and are whole vectors.

// Loops are unrolled where an fma is one instruction; emulated ones would fill the program.
#define NATIVE (HLX_NATIVE_FMA != 0u && HLX_NATIVE_FLUSH != 0u)
#define EACH(i, n, BODY)                                    \
    if (NATIVE) {                                           \
        [[unroll]] for (uint i = 0u; i < (n); ++i) { BODY } \
    } else {                                                \
        for (uint i = 0u; i < (n); ++i) { BODY }            \
    }

// Four columns of a row from element `at`, which is column d; zero past D.
#define DEFINE_FETCH(fetch, scalars, vectors)                                    \
    vec4 fetch(uint at, uint d) {                                                \
        vec4 v = vec4(0.0);                                                      \
        if (VECTOR) {                                                            \
            if (d < D) v = vectors[at >> 2];                                     \
        } else {                                                                 \
            for (uint i = 0u; i < 4u; ++i)                                       \
                if (d + i < D) v[i] = scalars[at + i];                           \
        }                                                                        \
        return v;                                                                \
    }

// Writes one vector, which is column d, where it exists.
#define DEFINE_STORE(store, scalars, vectors)                                    \
    void store(uint at, uint d, vec4 value) {                                    \
        if (VECTOR) {                                                            \
            if (d < D) vectors[at >> 2] = value;                                 \
        } else {                                                                 \
            for (uint i = 0u; i < 4u; ++i)                                       \
                if (d + i < D) scalars[at + i] = value[i];                       \
        }                                                                        \
    }

// A binding of rows, as numbers and as vectors, that are read or written.
#define READ_ROWS(slot, qualifiers, Name, fetch, scalars, vectors)               \
    layout(set = 0, binding = slot) qualifiers buffer Name { float scalars[]; }; \
    layout(set = 0, binding = slot) qualifiers buffer Name##Vectors { vec4 vectors[]; }; \
    DEFINE_FETCH(fetch, scalars, vectors)
#define WRITE_ROWS(slot, qualifiers, Name, store, scalars, vectors)              \
    layout(set = 0, binding = slot) qualifiers buffer Name { float scalars[]; }; \
    layout(set = 0, binding = slot) qualifiers buffer Name##Vectors { vec4 vectors[]; }; \
    DEFINE_STORE(store, scalars, vectors)

// exp(x) for x <= 0: no score exceeds its row's maximum.
float exp_of_finite(float x) {
    precise float y = hlx_exp_core(x);
    return x < HLX_EXP_LOW ? 0.0 : y;
}

// The same, and NaN for NaN.
float exp_below(float x) {
    precise float y = exp_of_finite(x);
    return hlx_isnan(x) ? x : y;
}

// The online softmax of a block: a row's maximum m moves to that of the block's scores, whose largest is top, and what
// was summed before it is multiplied by `correction`.
#define MOVE_MAXIMUM(m, top)                                                     \
    precise float now = hlx_max(m, hlx_pos0(top));                               \
    precise float correction = exp_below(hlx_sub(m, now));                       \
    m = now;
// The larger ones of what eight threads have of a row, four by four.
#define JOIN_TOPS(tops, at)                                                      \
    vec4 a = tops[at];                                                           \
    vec4 b = tops[(at) + 1u];                                                    \
    precise float left = hlx_max(hlx_max(a.x, a.y), hlx_max(a.z, a.w));          \
    precise float right = hlx_max(hlx_max(b.x, b.y), hlx_max(b.z, b.w));
// l goes on over the block's weights of a row, eight vectors, in order.
#define SUM_WEIGHTS(l, weights, row)                                             \
    EACH(j, 8u,                                                                  \
        vec4 p = weights[WEIGHT(row, j)];                                        \
        EACH(c, 4u, l = hlx_add(l, p[c]);)                                       \
    )
// Weights of four neighbouring keys, of which some are dropped by their draws.
#define DROP_WEIGHTS(x, words)                                                   \
    EACH(c, 4u, x[c] = is_kept(words[c]) ? hlx_mul(x[c], push.factor) : 0.0;)
