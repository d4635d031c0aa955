// The images that a convolution's product reads: where each element of their patches lies.
//
// A patch's element (tap (ky, kx) of a channel, pixel (py, px) of a plane) is the image's element
//   y = (py scale_y + first_y + ky step_y) / DIVIDE_Y, and x likewise,
// where that is whole and inside of the image, otherwise zero. Forward and for the weight's
// gradient: scale is the stride, first is minus the padding, step the dilation, and DIVIDE is 1.
// For the input's gradient: 1, the padding, minus the dilation, and DIVIDE is the stride.
#include "../include/arith.glsl"

// Divisors of the last step: 1, or the stride for the input's gradient.
layout(constant_id = 0) const uint DIVIDE_Y = 1u;
layout(constant_id = 1) const uint DIVIDE_X = 1u;
// Elements start at multiples of four: whole vectors of the weight (of the output's gradient),
// and of the result, are loaded and stored.
layout(constant_id = 2) const bool VECTOR_A = false;
layout(constant_id = 3) const bool VECTOR_C = false;
// Where a chain starts: 0 at zero, 1 at the bias, 2 at what the result holds.
layout(constant_id = 4) const uint START = 0;
// An even number of steps: the loop has no way out in its middle.
layout(constant_id = 5) const bool EVEN = false;

layout(push_constant) uniform Push {
    // Rows and columns of a group's product, and the terms of a chain.
    uint m, n, k, groups;
    // The grid's first column and first z.
    uint column_first, z_first;
    // Divisors: pixels of a plane and of its row, taps of a channel and of their row.
    uint pixels, pixels_magic, pixels_shift, width, width_magic, width_shift;
    uint taps, taps_magic, taps_shift, taps_width, taps_width_magic, taps_width_shift;
    // The images: a plane's extents, and the planes of a sample.
    uint image_height, image_width, image_channels;
    uint scale_y, scale_x, first_y, first_x, step_y, step_x;
    // Rows of a plane's pixels; of the weight's gradient, the runs of a z and those of a sample.
    uint height, runs, sample_runs;
    // Where operands are prepared as integers: the z, and the first of a weight gradient's pieces.
    uint z_count, piece_first;
} push;

// n / d for n < 2^31 by a multiplication: magic is floor(2^32 (2^shift - d) / d) + 1 for the
// smallest shift with d <= 2^shift (Granlund and Montgomery 1994).
#define DIVIDED(n, d) divided(n, push.d##_magic, push.d##_shift)
uint divided(uint n, uint magic, uint shift) {
    uint high;
    uint low;
    umulExtended(n, magic, high, low);
    return (high + n) >> shift;
}

// A part of an element's place, of a pixel or of a tap: the elements before its plane, and its
// share in y and in x.
struct Part {
    uint base;
    uvec2 at;
};

// The part of pixel `index` of all samples' planes.
Part pixel_part(uint index, uint first_plane) {
    uint sample_idx = DIVIDED(index, pixels);
    uint pixel = index - sample_idx * push.pixels;
    uint y = DIVIDED(pixel, width);
    uint x = pixel - y * push.width;
    uint plane = sample_idx * push.image_channels + first_plane;
    return Part(plane * push.image_height * push.image_width,
                uvec2(x * push.scale_x + push.first_x, y * push.scale_y + push.first_y));
}

// The part of tap `index` of all channels.
Part tap_part(uint index) {
    uint channel = DIVIDED(index, taps);
    uint tap = index - channel * push.taps;
    uint y = DIVIDED(tap, taps_width);
    uint x = tap - y * push.taps_width;
    return Part(channel * push.image_height * push.image_width,
                uvec2(x * push.step_x, y * push.step_y));
}

// A part that is outside of every image whatever the other part is.
Part outside() {
    return Part(0u, uvec2(0x40000000u));
}

// Whether a pixel's tap is an element of its image, and which. Places are unsigned and wrap: one
// before the image is beyond its end.
bool element_of(Part pixel, Part tap, out uint element) {
    uvec2 at = pixel.at + tap.at;
    uvec2 divide = uvec2(DIVIDE_X, DIVIDE_Y);
    uvec2 place = at / divide;
    element = pixel.base + tap.base + place.y * push.image_width + place.x;
    bool whole = (DIVIDE_Y == 1u || place.y * DIVIDE_Y == at.y)
        && (DIVIDE_X == 1u || place.x * DIVIDE_X == at.x);
    return whole && at.y < push.image_height * DIVIDE_Y && at.x < push.image_width * DIVIDE_X;
}
