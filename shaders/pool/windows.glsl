// The windows of pooling along one axis: which inputs an output sees, and which outputs see an input.
//
// Output o sees the inputs o stride - padding + t dilation, t below the kernel's extent, that are
// inside; with ADAPTIVE, those from floor(o I / O) to before ceil((o + 1) I / O).
#include "../include/planes.glsl"

// Windows cut the input into parts of about equal length.
layout(constant_id = 0) const bool ADAPTIVE = false;

layout(push_constant) uniform Push {
    uint count, input_height, input_width, output_height, output_width;
    uint kernel_height, kernel_width, stride_y, stride_x, padding_y, padding_x;
    uint dilation_y, dilation_x;
    float divisor;
} push;

struct Axis {
    uint inputs, outputs, kernel, stride, padding, dilation;
};

Axis axis_y() {
    return Axis(push.input_height, push.output_height, push.kernel_height, push.stride_y,
                push.padding_y, push.dilation_y);
}

Axis axis_x() {
    return Axis(push.input_width, push.output_width, push.kernel_width, push.stride_x,
                push.padding_x, push.dilation_x);
}

uint span_of(Axis axis) {
    return (axis.kernel - 1u) * axis.dilation + 1u;
}

// The first input of a window and the end of its inputs; from one to the next is the dilation.
uvec2 window_of(Axis axis, uint o) {
    if (ADAPTIVE)
        return uvec2(o * axis.inputs / axis.outputs,
                     ((o + 1u) * axis.inputs + axis.outputs - 1u) / axis.outputs);
    uint first = o * axis.stride;
    uint end = min(first + span_of(axis), axis.padding + axis.inputs);
    if (first < axis.padding)
        first += (axis.padding - first + axis.dilation - 1u) / axis.dilation * axis.dilation;
    return uvec2(first, max(first, end)) - axis.padding;
}

// How many elements a window has, also those in the padding.
uint padded_length(Axis axis, uint o) {
    uint first = o * axis.stride;
    return min(first + axis.kernel, axis.inputs + 2u * axis.padding) - first;
}

// The first window that may see an input, and the end of those windows.
uvec2 windows_over(Axis axis, uint i) {
    if (ADAPTIVE)
        return uvec2(i * axis.outputs / axis.inputs,
                     ((i + 1u) * axis.outputs + axis.inputs - 1u) / axis.inputs);
    uint at = i + axis.padding;
    uint span = span_of(axis);
    uint first = at < span ? 0u : (at - span) / axis.stride + 1u;
    return uvec2(first, min(at / axis.stride + 1u, axis.outputs));
}
