// The product of prepared operands in plain integer arithmetic, for every device: C[m, n] from the exact sums
//   S_hi = sum_k hi(a[m, k]) b[n, k], S_lo = sum_k lo(a[m, k]) b[n, k],
// as the float nearest to 256 S_hi + S_lo, times 2^-(e_a[m] + e_b[n]), -0 to +0, then bias[n] is added. A row with a NaN or an infinity
// gives NaN. a: [2, M, words], b: [N, words] (prepare.comp); C: [M, N]. 16 x 16 results a workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "../include/arith.glsl"
#include "../include/integer.glsl"

layout(local_size_x = 256) in;

layout(constant_id = 0) const bool HAS_BIAS = false;

layout(push_constant) uniform Push {
    uint m;
    uint n;
    uint words;  // a multiple of 8
} push;

layout(set = 0, binding = 0) readonly restrict buffer A { uint a[]; };
layout(set = 0, binding = 1) readonly restrict buffer AExponents { int a_exponents[]; };
layout(set = 0, binding = 2) readonly restrict buffer B { uint b[]; };
layout(set = 0, binding = 3) readonly restrict buffer BExponents { int b_exponents[]; };
layout(set = 0, binding = 4) readonly restrict buffer Bias { float bias[]; };
layout(set = 0, binding = 5) writeonly restrict buffer C { float c[]; };

const uint SIDE = 16u;
// Words of a row that are in shared memory at a time.
const uint STEP = 8u;

// Upper digits of a, its lower ones, and b.
shared uint tiles[3][SIDE][STEP + 1u];

int digit(uint word, uint j) { return bitfieldExtract(int(word), int(8u * j), 8); }

void main() {
    uint across = (push.n + SIDE - 1u) / SIDE;
    uint y = gl_LocalInvocationID.x / SIDE;
    uint x = gl_LocalInvocationID.x % SIDE;
    uint first_row = hlx_group() / across * SIDE;
    uint first_column = hlx_group() % across * SIDE;
    if (first_row >= push.m) return;
    int high = 0;
    int low = 0;
    for (uint first = 0u; first < push.words; first += STEP) {
        for (uint at = gl_LocalInvocationID.x; at < 3u * SIDE * STEP; at += 256u) {
            uint part = at / (SIDE * STEP);
            uint line = at / STEP % SIDE;
            uint word = first + at % STEP;
            uint row = min(first_row + line, push.m - 1u);
            uint column = min(first_column + line, push.n - 1u);
            tiles[part][line][at % STEP] = part == 2u ? b[column * push.words + word]
                                                      : a[(part * push.m + row) * push.words + word];
        }
        barrier();
        for (uint i = 0u; i < STEP; ++i) {
            uint of_high = tiles[0][y][i];
            uint of_low = tiles[1][y][i];
            uint of_b = tiles[2][x][i];
            for (uint j = 0u; j < 4u; ++j) {
                high += digit(of_high, j) * digit(of_b, j);
                low += digit(of_low, j) * digit(of_b, j);
            }
        }
        barrier();
    }
    uint row = first_row + y;
    uint column = first_column + x;
    if (row >= push.m || column >= push.n) return;
    int of_a = a_exponents[row];
    int of_b = b_exponents[column];
    precise float v = hlx_float_of_sums(high, low);
    precise float result = hlx_pos0(hlx_scaled_down(v, of_a == HLX_NO_EXPONENT ? 0 : of_a + of_b));
    if (of_a == HLX_NO_EXPONENT || of_b == HLX_NO_EXPONENT) result = uintBitsToFloat(HLX_NAN);
    if (HAS_BIAS) result = hlx_pos0(hlx_add(result, bias[column]));
    c[row * push.n + column] = result;
}
