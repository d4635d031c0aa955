// Adds the gradient's rows by token and over the shards, without a table a shard: the bits of
// backward.comp into [shards, vocabulary, width] and then reduce/shards.comp, for 2, 4 or 8
// shards. ids [shards, rows_per_shard], dweight [vocabulary, width], zero where no token writes.
//
// A workgroup has one position and 256 columns, or vectors of four. It works only if its position
// is the first of its token in all shards; the token's sum in a shard that lacks it is +0.
#include "tokens.glsl"

HLX_VIEWS(2, writeonly restrict, float, Dweight, dweight)

// The chain over the positions of the token in [begin, end), all of one shard.
vec4 shard_sum(uint token, uint begin, uint end, uint unit, uint units, bool whole) {
    precise vec4 total = vec4(0.0);
    for (uint chunk = begin; chunk < end; chunk += CHUNK) {
        uint count = list_matches(token, chunk, min(end, chunk + CHUNK));
        if (unit < units && whole) total = add_rows(total, count, unit, units);
        else if (unit < units) total.x = add_singles(total.x, count, unit, units);
        barrier();
    }
    return positive_zeros(total);
}

void main() {
    POSITION
    if (token >= push.vocabulary || is_repeated(token, 0u, position)) return;

    uint unit = (hlx_group() % blocks) * 256u + gl_LocalInvocationID.x;
    uint first_shard = position / push.rows_per_shard;
    uint shards = push.rows / push.rows_per_shard;
    // Sums of one, two and four shards that wait for an equal: a binary counter.
    precise vec4 one = vec4(0.0);
    precise vec4 two = vec4(0.0);
    precise vec4 four = vec4(0.0);
    precise vec4 total = vec4(0.0);
    for (uint shard = first_shard; shard < shards; ++shard) {
        uint end = (shard + 1u) * push.rows_per_shard;
        uint begin = max(end - push.rows_per_shard, position);
        total = shard_sum(token, begin, end, unit, units, whole);
        if ((shard & 1u) == 0u) {
            one = total;
            continue;
        }
        total = add(one, total);
        one = vec4(0.0);
        if ((shard & 2u) == 0u) {
            two = total;
            continue;
        }
        total = add(two, total);
        two = vec4(0.0);
        if ((shard & 4u) == 0u) four = total;
        else total = add(four, total);
    }
    if (unit >= units) return;
    if (whole) dweight4[token * units + unit] = total;
    else dweight1[token * units + unit] = total.x;
}
