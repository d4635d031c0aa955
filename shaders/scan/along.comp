// Running sums or products along an axis whose elements lie side by side in the result.
//
// A workgroup has 32 items. All its threads load a tile of 64 elements of each, one thread an item
// makes the chain through the tile, and all threads store it.
#include "scan.glsl"

const uint ROWS = 32u;
const uint WIDTH = 64u;
const uint PITCH = WIDTH + 1u;  // neighbouring rows begin in neighbouring banks

shared uint tile[ROWS * PITCH];

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint first_item = hlx_group() * ROWS;
    uint column = thread % WIDTH;
    uint from[8];
    uint to[8];
    uint counts[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint item = first_item + thread / WIDTH + 4u * i;
        uint line = item / push.pieces;
        uint begin = (item - line * push.pieces) * push.piece;
        counts[i] = item < push.items ? min(push.n - begin, push.piece) : 0u;
        from[i] = hlx_line_place(line) + begin * push.axis_stride;
        to[i] = line * push.n + begin;
    }
    uint item = first_item + thread;
    uint offset = nothing();
    if (BEFORE != 0u && thread < ROWS && item < push.items && item % push.pieces != 0u)
        offset = before[item - 1u];
    uint carry = nothing();
    for (uint start = 0u; start < min(push.n, push.piece); start += WIDTH) {
        uint at = start + column;
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            uint word = nothing();
            if (at < counts[i]) word = x[from[i] + at * push.axis_stride];
            tile[(thread / WIDTH + 4u * i) * PITCH + column] = word;
        }
        barrier();
        if (thread < ROWS) {
            for (uint c = 0u; c < WIDTH; ++c) {
                carry = join(carry, tile[thread * PITCH + c]);
                uint sum = BEFORE != 0u ? join(offset, carry) : carry;
                if (TOTALS == 0u) tile[thread * PITCH + c] = stored(sum);
            }
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < 8u; ++i)
            if (TOTALS == 0u && at < counts[i])
                result[to[i] + at] = tile[(thread / WIDTH + 4u * i) * PITCH + column];
        if (TOTALS == 0u) barrier();
    }
    if (TOTALS != 0u && thread < ROWS && item < push.items) result[item] = stored(carry);
}
