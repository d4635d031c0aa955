// The draws of dropped weights (attention.rs has the rule). Push constants: seed_low, seed_high, purpose, p.

// The key of a sample's draws, of the step and the first sample's number.
uvec2 draw_key(uint step_idx, uint first_sample, uint sample_idx) {
    uvec4 words = hlx_philox4x32(uvec4(0u, first_sample + sample_idx, step_idx, push.purpose),
                                 uvec2(push.seed_low, push.seed_high));
    return words.xy;
}
// The draws of four neighbouring keys, which count from the document's first; position: the query's.
uvec4 draw4(uvec2 key, uint head, uint position, uint quad) {
    return hlx_philox4x32(uvec4(quad, position, head, 0u), key);
}
bool is_kept(uint word) { return hlx_uniform(word) >= push.p; }
