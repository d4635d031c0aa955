// The frame of batch norm's kernels over elements: element e of x [shards * samples, channels, length]
// belongs to plane e / length, of channel plane % channels and shard plane / (channels * samples).
// A thread has four neighbouring elements, which are a vector of one plane where the length is a
// multiple of four (WHOLE).
#include "../include/arith.glsl"

#extension GL_EXT_control_flow_attributes : require // also of modules without such a loop

layout(local_size_x = 256) in;
layout(constant_id = 4) const uint COUNTED = 0u;
layout(constant_id = 5) const uint WHOLE = 0u;

layout(push_constant) uniform Push {
    uint count;     // elements
    uint shards;
    uint samples;   // of a shard
    uint channels, extent;
    uint magic;     // division by the length (crate::division)
    uint shift;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Counts { uint counts[]; };

struct Plane {
    uint channel;
    uint at;    // shard * channels + channel
    bool real;  // of a real sample
};

Plane plane_of(uint element) {
    uint plane = element;
    if (push.extent > 1u) {
        uint high, low;
        umulExtended(push.magic, element, high, low);
        plane = (high + ((element - high) >> 1)) >> push.shift;
    }
    uint sample_idx = plane / push.channels;
    Plane place;
    place.channel = plane - sample_idx * push.channels;
    place.at = sample_idx / push.samples * push.channels + place.channel;
    place.real = COUNTED == 0u || sample_idx >= counts[0];
    return place;
}
