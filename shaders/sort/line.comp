// Sorts lines of up to 4,096 elements, a workgroup each: eight passes of a stable radix sort over 4
// bits, between which keys and places stay in registers and shared memory.
//
// A thread has 16 neighbouring pairs. A pass counts its digits in two counters of 16 bits per word:
// those of digits w and w + 8 lie in word [w][thread], so that one scan over all words gives what
// lies before each thread's first pair of a digit, the upper halves behind the sum of the lower ones.
// Then the pairs go to their ranks through shared memory. All counters, sums and pairs take turns in
// the same 16 KiB. results.glsl says what is written.
#include "sort.glsl"
#include "results.glsl"

const uint RUN = 16u;
const uint WORDS = 8u;            // of a thread's counters, and those that it scans
const uint SUMS = WORDS * 256u;   // [256]: of the words that a thread scans
const uint TOTALS = SUMS + 256u;  // [16]: of 16 threads

shared uint room[RUN * 256u];

// Where word i lies: neighbours lie in different banks, and so do words 8 or 16 apart.
uint slot(uint i) { return i ^ ((i >> 5) & 31u); }

uint digit_of(uint key, uint shift) { return (key >> shift) & 15u; }

// Replaces counters by the sums of all before them.
void scan_counters(uint thread) {
    uint own[WORDS];
    uint total = 0u;
    [[unroll]] for (uint j = 0u; j < WORDS; ++j) {
        own[j] = room[slot(WORDS * thread + j)];
        total += own[j];
    }
    room[SUMS + thread] = total;
    barrier();
    uint before = 0u;
    uint sixteen = 0u;
    [[unroll]] for (uint j = 0u; j < 16u; ++j) {
        uint sum = room[SUMS + (thread & ~15u) + j];
        before += j < (thread & 15u) ? sum : 0u;
        sixteen += sum;
    }
    if ((thread & 15u) == 0u) room[TOTALS + thread / 16u] = sixteen;
    barrier();
    uint all = 0u;
    [[unroll]] for (uint j = 0u; j < 16u; ++j) {
        uint sum = room[TOTALS + j];
        before += j < thread / 16u ? sum : 0u;
        all += sum;
    }
    before += all << 16;
    [[unroll]] for (uint j = 0u; j < WORDS; ++j) {
        room[slot(WORDS * thread + j)] = before;
        before += own[j];
    }
}

void main() {
    uint thread = gl_LocalInvocationID.x;
    uint line = hlx_group();
    if (line >= push.lines) return;
    uint line_place = hlx_line_place(line);
    uint keys[RUN];
    uint places[RUN];
    uint ranks[RUN];
    [[unroll]] for (uint e = 0u; e < RUN; ++e) {
        // Pairs past the line's end come last.
        uint i = 256u * e + thread;
        uint key = 0xffffffffu;
        if (i < push.n) key = key_at(line_place + i * push.axis_stride);
        room[slot(i)] = key;
    }
    barrier();
    [[unroll]] for (uint e = 0u; e < RUN; ++e) {
        places[e] = RUN * thread + e;
        keys[e] = room[slot(places[e])];
    }
    for (uint shift = 0u; shift < 32u; shift += 4u) {
        barrier();
        [[unroll]] for (uint w = 0u; w < WORDS; ++w) room[slot(256u * w + thread)] = 0u;
        [[unroll]] for (uint e = 0u; e < RUN; ++e) {
            uint digit = digit_of(keys[e], shift);
            uint at = slot(256u * (digit & 7u) + thread);
            uint count = room[at];
            ranks[e] = (count >> (2u * (digit & 8u))) & 0xffffu;
            room[at] = count + (1u << (2u * (digit & 8u)));
        }
        barrier();
        scan_counters(thread);
        barrier();
        [[unroll]] for (uint e = 0u; e < RUN; ++e) {
            uint digit = digit_of(keys[e], shift);
            uint before = room[slot(256u * (digit & 7u) + thread)];
            ranks[e] += (before >> (2u * (digit & 8u))) & 0xffffu;
        }
        barrier();
        [[unroll]] for (uint e = 0u; e < RUN; ++e) room[slot(ranks[e])] = keys[e];
        barrier();
        // Neighbouring threads store neighbouring results, so the last pass leaves them apart.
        uint first = shift == 28u ? thread : RUN * thread;
        uint apart = shift == 28u ? 256u : 1u;
        [[unroll]] for (uint e = 0u; e < RUN; ++e) keys[e] = room[slot(first + e * apart)];
        barrier();
        [[unroll]] for (uint e = 0u; e < RUN; ++e) room[slot(ranks[e])] = places[e];
        barrier();
        [[unroll]] for (uint e = 0u; e < RUN; ++e) places[e] = room[slot(first + e * apart)];
    }
    [[unroll]] for (uint e = 0u; e < RUN; ++e)
        store_result(line, 256u * e + thread, keys[e], places[e]);
}
