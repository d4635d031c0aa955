// Adds the gradient's rows by token: dweight[s, ids[p], :] += dy[p, :] over the positions p of
// shard s, in their order; ids [shards, rows_per_shard], dweight [shards, vocabulary, width].
//
// A workgroup has one position and 256 columns, or vectors of four. It works only if its position is the first of
// its token in the shard; then it walks over the later ones, 1,024 at a time: the threads mark
// the matching positions in a bit mask, rank them into a list in order, and then each thread
// follows the list down its own column, eight loads ahead of the chain.
#include "tokens.glsl"

HLX_VIEWS(2, restrict, float, Dweight, dweight)

void main() {
    POSITION
    uint shard = position / push.rows_per_shard;
    uint begin = shard * push.rows_per_shard;
    if (token >= push.vocabulary || is_repeated(token, begin, position)) return;

    uint unit = (hlx_group() % blocks) * 256u + gl_LocalInvocationID.x;
    bool adds = unit < units;
    uint target = (shard * push.vocabulary + token) * units + unit;
    precise vec4 total = vec4(0.0);
    if (adds && whole) total = dweight4[target];
    else if (adds) total.x = dweight1[target];
    uint end = begin + push.rows_per_shard;
    for (uint chunk = position; chunk < end; chunk += CHUNK) {
        uint count = list_matches(token, chunk, min(end, chunk + CHUNK));
        if (adds && whole) total = add_rows(total, count, unit, units);
        else if (adds) total.x = add_singles(total.x, count, unit, units);
        barrier();
    }
    if (!adds) return;
    total = positive_zeros(total);
    if (whole) dweight4[target] = total;
    else dweight1[target] = total.x;
}
