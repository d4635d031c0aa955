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
