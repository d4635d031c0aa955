// Running sums or products along an outer axis: a thread an item, neighbouring threads on
// neighbouring lines, AHEAD loads of a thread under way together.
#include "scan.glsl"

void main() {
    uint item = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (item >= push.items) return;
    uint piece = item / push.lines;
    uint line = item - piece * push.lines;
    uint begin = piece * push.piece;
    uint count = min(push.n - begin, push.piece);
    uint from = hlx_line_place(line) + begin * push.axis_stride;
    uint outer = line / push.inner;
    uint to = (outer * push.n + begin) * push.inner + (line - outer * push.inner);
    uint offset = nothing();
    if (BEFORE != 0u && piece > 0u) offset = before[item - push.lines];
    uint carry = nothing();
    for (uint row = 0u; row < count; row += AHEAD) {
        uint words[AHEAD];
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) {
            words[i] = nothing();
            if (row + i < count) words[i] = x[from + (row + i) * push.axis_stride];
        }
        [[unroll]] for (uint i = 0u; i < AHEAD; ++i) {
            carry = join(carry, words[i]);
            uint sum = BEFORE != 0u ? join(offset, carry) : carry;
            if (TOTALS == 0u && row + i < count) result[to + (row + i) * push.inner] = stored(sum);
        }
    }
    if (TOTALS != 0u) result[item] = stored(carry);
}
