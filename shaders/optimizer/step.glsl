// The frame of an optimizer: four elements a thread, the last count % 4 one by one; all one by one
// where fma is emulated, which spares software drivers four copies of the step.
//
// Included last: the shader defines push.count, step_four (one vector) and step_one (one element).

void main() {
    uint i = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (HLX_NATIVE_FMA != 0u && i < push.count >> 2) {
        step_four(i);
        return;
    }
    uint end = min(4u * i + 4u, push.count);
    for (uint e = 4u * i; e < end; ++e) step_one(e);
}
