// A score's chain to the score, and to t = tanh(s / cap) where scores are capped. Push constants: scale,
// cap, inverse_cap.
float score(float chain, out float t) {
    precise float s = hlx_mul(chain, push.scale);
    t = 0.0;
    if (CAPPED) {
        t = hlx_tanh(hlx_mul(s, push.inverse_cap));
        s = hlx_mul(push.cap, t);
    }
    return s;
}
