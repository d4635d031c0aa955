// Where an output of interpolation along one axis lies between the inputs.
#include "../include/planes.glsl"

// 0: the nearest element before; 1: linear; 2: linear, the corners of both sides on each other.
layout(constant_id = 0) const uint MODE = 0u;

layout(push_constant) uniform Push {
    uint count, input_height, input_width, output_height, output_width;
    float scale_y, scale_x;
} push;

struct Axis {
    uint inputs, outputs;
    float scale;
};

Axis axis_y() {
    return Axis(push.input_height, push.output_height, push.scale_y);
}

Axis axis_x() {
    return Axis(push.input_width, push.output_width, push.scale_x);
}

// The place of output o, in inputs from the first one's: o scale, or (o + 1/2) scale - 1/2, at least 0.
float place_of(Axis axis, uint o) {
    precise float at = float(o);
    if (MODE != 1u) return hlx_mul(at, axis.scale);
    precise float place = hlx_fma(axis.scale, hlx_add(at, 0.5), -0.5);
    return place < 0.0 ? 0.0 : place;
}

// The input at or before that place.
uint source_of(Axis axis, uint o) {
    return min(uint(floor(place_of(axis, o))), axis.inputs - 1u);
}

// The first output whose source is `source` or a later one.
uint first_from(Axis axis, uint source) {
    uint low = 0u;
    uint high = axis.outputs;
    while (low < high) {
        uint middle = (low + high) / 2u;
        if (source_of(axis, middle) < source) low = middle + 1u;
        else high = middle;
    }
    return low;
}

// An output's two inputs and their weights.
struct Between {
    uvec2 source;
    vec2 weight;
};

Between between(Axis axis, uint o) {
    uint before = source_of(axis, o);
    precise float right = hlx_sub(place_of(axis, o), float(before));
    right = right > 1.0 ? 1.0 : right;
    precise float left = hlx_sub(1.0, right);
    return Between(uvec2(before, min(before + 1u, axis.inputs - 1u)), vec2(left, right));
}

// The weight that an input has in an output that it is a source of.
float weight_of(Axis axis, uint o, uint i) {
    Between b = between(axis, o);
    if (b.source.x != i) return b.weight.y;
    return b.source.y == i ? hlx_add(b.weight.x, b.weight.y) : b.weight.x;
}
