// Notes where each target's contributions begin: starts[key] = the first j with keys[j] = key.
#include "segments.glsl"

layout(set = 0, binding = 1) restrict buffer Starts { uint starts[]; };

void main() {
    uint j = hlx_group() * 256u + gl_LocalInvocationID.x;
    if (j >= push.count) return;
    uint key = keys[j];
    if (key != NO_TARGET && (j == 0u || keys[j - 1u] != key)) starts[key] = j;
}
