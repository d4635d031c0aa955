// What every optimizer reads besides its tensors: rows of numbers, one per group of parameters, in the
// order of Hyper::to_words (crates/hlx-kernels/src/optimizer/hyper.rs), the factor that clips the
// gradient, and the row of each block of 64 elements.
#include "../include/arith.glsl"

layout(constant_id = 1) const uint GROUPED = 0u;  // 0: all elements have the row push.row

#ifndef HLX_MORE_PUSH
#define HLX_MORE_PUSH
#endif
layout(push_constant) uniform Push {
    uint count, row, rows;
    HLX_MORE_PUSH
} push;

layout(set = 0, binding = 1) readonly restrict buffer HyperWords { float hyper[]; };
layout(set = 0, binding = 2) readonly restrict buffer Clip { float clip[]; };
layout(set = 0, binding = 3) readonly restrict buffer Groups { uint groups[]; };

const uint HYPER_LEN = 16u;
const uint SKIPPED = 0xffffffffu;  // a block that the step leaves as it is

#define NEGATIVE_RATE hyper[at]          // -lr
#define MOMENTUM hyper[at + 1u]          // mu
#define WEIGHT_DECAY hyper[at + 2u]      // lambda
#define KEEP hyper[at + 3u]              // 1 - lr lambda
#define ONE_MINUS_BETA1 hyper[at + 4u]   // 1 - beta1
#define BETA2 hyper[at + 5u]             // beta2
#define ONE_MINUS_BETA2 hyper[at + 6u]   // 1 - beta2
#define NEGATIVE_STEP hyper[at + 7u]     // -lr / (1 - beta1^t)
#define INVERSE_ROOT hyper[at + 8u]      // 1 / sqrt(1 - beta2^t)
#define EPSILON hyper[at + 9u]           // eps
#define FRESH hyper[at + 10u]            // 1 - dampening; 1 in the first step
#define LIMIT hyper[at + 11u]            // the largest magnitude of a clipped gradient

// Where the numbers of an element begin, or SKIPPED.
uint numbers_of(uint element) {
    if (GROUPED == 0u) return HYPER_LEN * push.row;
    uint row = groups[element >> 6];
    return row == SKIPPED ? SKIPPED : HYPER_LEN * min(row, push.rows - 1u);
}

// The gradient times the factor of the norm, then within the limit; NaN stays.
float clipped(uint at, float gradient) {
    precise float g = hlx_mul(clip[0], gradient);
    g = g > LIMIT ? LIMIT : g;
    return g < -LIMIT ? -LIMIT : g;
}
