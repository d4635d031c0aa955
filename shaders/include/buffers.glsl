// What declarations of many kernels have in common.
//
// Buffers of T, float or uint, with two views, of elements and of vectors of four: x1 and x4, or x and x_vectors.
#define HLX_FOUR_float vec4
#define HLX_FOUR_uint uvec4

#define HLX_VIEWS(place, access, T, X, x) \
    layout(set = 0, binding = place) access buffer X##1 { T x##1[]; }; \
    layout(set = 0, binding = place) access buffer X##4 { HLX_FOUR_##T x##4[]; };

#define HLX_WITH_VECTORS(place, access, T, X, x) \
    layout(set = 0, binding = place) access buffer X { T x[]; }; \
    layout(set = 0, binding = place) access buffer X##Vectors { HLX_FOUR_##T x##_vectors[]; };

// The push constants by which lines.glsl finds lines in up to 8 dimensions.
#define HLX_LINE_MEMBERS uint first; uint n_dims; uint extents[8]; uint strides[8];
