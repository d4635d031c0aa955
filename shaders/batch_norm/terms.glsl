// The terms of batch norm: x [shards * samples, channels, length], of which a channel of a shard has
// the elements of its real samples, in row-major order, in pieces of 4,096. The first counts[0] samples
// of the pass are empty where COUNTED, none otherwise.
#include "../include/math.glsl"
#include "../include/convert.glsl"
#define HLX_REDUCTIONS 2
#include "../include/held_row.glsl"

layout(constant_id = 4) const uint COUNTED = 0u;

layout(push_constant) uniform Push {
    uint shards;
    uint samples;  // of a shard
    uint channels;
    uint extent;   // elements of a channel of a sample
    uint pieces;   // of a channel of a shard
    uint magic;    // division by the length (crate::division)
    uint shift;
    float eps, momentum;
} push;

layout(set = 0, binding = 0) readonly restrict buffer Counts { uint counts[]; };

const uint PIECE = 4096u;

// The empty samples of a shard, which come first.
uint empty_samples(uint shard) {
    uint first = shard * push.samples;
    uint all = COUNTED != 0u ? counts[0] : 0u;
    return all <= first ? 0u : min(all - first, push.samples);
}

// The terms of a channel of a shard.
uint terms_of(uint shard) { return (push.samples - empty_samples(shard)) * push.extent; }

struct Piece {
    uint base;     // where the channel of the shard's first real sample begins
    uint first;    // the piece's first term
    uint count;    // its terms
    uint channel;  // shard * channels + channel
};

// The piece of a row of partials [shards, channels, pieces].
Piece piece_of(uint row) {
    Piece piece;
    piece.channel = row / push.pieces;
    piece.first = (row - piece.channel * push.pieces) * PIECE;
    uint shard = piece.channel / push.channels;
    uint channel = piece.channel - shard * push.channels;
    uint sample_idx = shard * push.samples + empty_samples(shard);
    piece.base = (sample_idx * push.channels + channel) * push.extent;
    uint terms = terms_of(shard);
    piece.count = terms <= piece.first ? 0u : min(terms - piece.first, PIECE);
    return piece;
}

// Where term t of a piece lies.
uint place_of(Piece piece, uint t) {
    uint term = piece.first + t;
    if (push.extent == 1u) return piece.base + term * push.channels;
    uint high, low;
    umulExtended(push.magic, term, high, low);
    uint plane = (high + ((term - high) >> 1)) >> push.shift;
    return piece.base + plane * push.channels * push.extent + (term - plane * push.extent);
}
