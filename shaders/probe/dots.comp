// Dot products of four signed bytes: out[i] = the sum of those of words[4 i] .. with words[4 (i + 64)] .., of 64 quads each.
#extension GL_EXT_integer_dot_product : require

layout(local_size_x = 64) in;

layout(set = 0, binding = 0) readonly restrict buffer Words { uvec4 words[]; };
layout(set = 0, binding = 1) writeonly restrict buffer Out { int sums[]; };

void main() {
    uint i = gl_LocalInvocationIndex;
    int sum = 0;
    for (uint j = 0u; j < 4u; ++j) sum += dotPacked4x8EXT(int(words[i][j]), int(words[i + 64u][j]));
    sums[i] = sum;
}
