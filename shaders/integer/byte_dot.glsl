// The sum of the products of 16 digits by dot products of four bytes.
#extension GL_EXT_integer_dot_product : require

int dot_of(uvec4 x, uvec4 y) {
    int sum = 0;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) sum += dotPacked4x8EXT(int(x[i]), int(y[i]));
    return sum;
}
