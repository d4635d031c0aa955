// What a product does with its chains before it stores them. Included by product.glsl.
//
// The bits are those of storing C and running the elementwise kernel over it. Activations are
// long: they run in a loop over a thread's rows, in which every row moves up to the first place,
// so that each is named by a constant (an index that varies would put all of them in memory).
#include "../include/activation.glsl"

// 1 c = chain + extra; 2 c = chain and extra = f(chain); 3 c = chain f'(c); 4 c = chain scalar.
layout(constant_id = 8) const uint EPILOGUE = 0;
// The activation, by its place in activations.txt.
layout(constant_id = 9) const uint KIND = 0;
#include "../include/activation_kinds.glsl"
// Modules that write extra (EPILOGUE is 2) are apart from those that read it: a binding that a module
// may write counts as written in every launch of it.
#ifdef WRITES_EXTRA
HLX_WITH_VECTORS(4, writeonly, float, Extra, extra)

vec4 load_other(uint base, uint m, uint n) { return vec4(0.0); }

void store_extra(uint base, uint m, uint n, vec4 v) {
    uint at = base + m * push.n + n;
    if (m >= push.m) return;
    HLX_STORE_FOUR(j, VECTOR_C, extra, at, n, push.n, v)
}
#else
HLX_WITH_VECTORS(4, readonly, float, Extra, extra)

// Four elements from row m and column n of the epilogue's second operand, extra or C; 0 past an edge.
vec4 load_other(uint base, uint m, uint n) {
    vec4 v = vec4(0.0);
    uint at = base + m * push.n + n;
    if (m >= push.m) return v;
    if (VECTOR_C) {
        if (n < push.n) v = EPILOGUE == 3u ? c_vectors[at >> 2] : extra_vectors[at >> 2];
    } else {
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (n + j < push.n) v[j] = EPILOGUE == 3u ? c[at + j] : extra[at + j];
    }
    return v;
}

void store_extra(uint base, uint m, uint n, vec4 v) {}
#endif
