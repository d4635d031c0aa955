// Rows that a workgroup holds in registers, so that memory is read once. The lanes and the tree
// are those of reduce.glsl: lane l adds the columns l, l + 128, ..., then lane[l] += lane[l + 64]
// and so on.
//
// COLS is a constant, so that every loop is unrolled and every load of a row is under way before
// the first is used. HLX_THREADS threads have a row: 32 with four lanes each (t, t + 32, t + 64,
// t + 96) for short rows, 128 with one lane each for long ones. Only GPUs run these shaders
// (lanes.rs): software drivers would compile them for minutes.
//
// A shader defines HLX_REDUCTIONS (how many it makes), and keeps element i of a thread in v[i] of `float v[HLX_HELD]`:
//   HLX_EACH(i) if (hlx_has(i)) v[i] = x[base + hlx_col(i)];
//   HLX_START(lanes, 0.0)
//   HLX_EACH(i) if (hlx_has(i)) lanes[HLX_LANE(i)] = hlx_add(lanes[HLX_LANE(i)], v[i]);
//   float total = hlx_reduce(lanes, 0u, false);
// Every thread takes part in the barriers: one past the last row works on the last row
// (hlx_row(rows)) and stores nothing (hlx_is_row(rows)).
#include "math.glsl"

layout(local_size_x = 64, local_size_x_id = 0) in;
layout(constant_id = 1) const uint COLS = 128u;
layout(constant_id = 2) const uint HLX_THREADS = 32u;
layout(constant_id = 3) const uint HLX_GROUP_ROWS = 2u;

const uint HLX_LANES_HELD = 128u / HLX_THREADS;
const uint HLX_HELD = ((COLS + 127u) / 128u) * HLX_LANES_HELD;
const float HLX_LOWEST = uintBitsToFloat(0xff800000u);

#define HLX_LANE(i) ((i) % HLX_LANES_HELD)
#define HLX_EACH(i) [[unroll]] for (uint i = 0u; i < HLX_HELD; ++i)
// Starts the lanes of a reduction; declares them.
#define HLX_START(lanes, value) \
    precise float lanes[HLX_LANES_HELD]; \
    [[unroll]] for (uint j = 0u; j < HLX_LANES_HELD; ++j) lanes[j] = value;

// One slot a reduction: a thread may still read one while its neighbour writes the next.
shared float hlx_lanes[HLX_REDUCTIONS][HLX_GROUP_ROWS * 128u];

uint hlx_row_thread() { return gl_LocalInvocationID.x % HLX_THREADS; }
uint hlx_local_row() { return gl_LocalInvocationID.x / HLX_THREADS; }
bool hlx_is_row(uint rows) { return hlx_group() * HLX_GROUP_ROWS + hlx_local_row() < rows; }
uint hlx_row(uint rows) { return min(hlx_group() * HLX_GROUP_ROWS + hlx_local_row(), rows - 1u); }

uint hlx_col(uint i) {
    return (i / HLX_LANES_HELD) * 128u + (i % HLX_LANES_HELD) * HLX_THREADS + hlx_row_thread();
}

// Whether the row has element i; known when compiled for all but the last 128 columns.
bool hlx_has(uint i) { return (i / HLX_LANES_HELD + 1u) * 128u <= COLS || hlx_col(i) < COLS; }

float hlx_join(float a, float b, bool maximum) { return maximum ? hlx_max(a, b) : hlx_add(a, b); }

// The tree's levels 64 and 32: what threads t, t + 32, ... of the row hold afterwards is equal.
float hlx_fold(float lanes[HLX_LANES_HELD], uint slot, bool maximum) {
    if (HLX_LANES_HELD == 4u)
        return hlx_join(hlx_join(lanes[0], lanes[2u % HLX_LANES_HELD], maximum),
                        hlx_join(lanes[1u % HLX_LANES_HELD], lanes[3u % HLX_LANES_HELD], maximum),
                        maximum);
    hlx_lanes[slot][gl_LocalInvocationID.x] = lanes[0];
    barrier();
    uint at = hlx_local_row() * 128u + hlx_row_thread() % 32u;
    precise float even = hlx_join(hlx_lanes[slot][at], hlx_lanes[slot][at + 64u], maximum);
    precise float odd = hlx_join(hlx_lanes[slot][at + 32u], hlx_lanes[slot][at + 96u], maximum);
    return hlx_join(even, odd, maximum);
}

shared float hlx_partials[HLX_REDUCTIONS][HLX_GROUP_ROWS * 32u];
shared float hlx_eighths[HLX_REDUCTIONS][HLX_GROUP_ROWS * 8u];

void hlx_publish(float partial, uint slot) {
    if (hlx_row_thread() < 32u)
        hlx_partials[slot][hlx_local_row() * 32u + hlx_row_thread()] = partial;
}

// The levels 16 and 8, by every thread for one of eight places.
void hlx_publish_eighth(uint slot, bool maximum) {
    uint place = hlx_row_thread() % 8u;
    uint at = hlx_local_row() * 32u + place;
    precise float even = hlx_join(hlx_partials[slot][at], hlx_partials[slot][at + 16u], maximum);
    precise float odd = hlx_join(hlx_partials[slot][at + 8u], hlx_partials[slot][at + 24u], maximum);
    if (hlx_row_thread() < 8u)
        hlx_eighths[slot][hlx_local_row() * 8u + place] = hlx_join(even, odd, maximum);
}

// The levels 4, 2 and 1, by every thread: no broadcast.
float hlx_finish(uint slot, bool maximum) {
    precise float p[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) p[i] = hlx_eighths[slot][hlx_local_row() * 8u + i];
    [[unroll]] for (uint width = 4u; width > 0u; width >>= 1)
        [[unroll]] for (uint i = 0u; i < width; ++i) p[i] = hlx_join(p[i], p[i + width], maximum);
    return hlx_pos0(p[0]);
}

// Reduces the lanes of every row to the row's value, for all its threads.
float hlx_reduce(float lanes[HLX_LANES_HELD], uint slot, bool maximum) {
    hlx_publish(hlx_fold(lanes, slot, maximum), slot);
    barrier();
    hlx_publish_eighth(slot, maximum);
    barrier();
    return hlx_finish(slot, maximum);
}
