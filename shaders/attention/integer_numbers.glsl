// The numbers of attention over integers: digits, exponents and sums of a row of D columns.
// Words of a row.
const uint WORDS = (D + 31u) / 32u * 8u;

// A sum below 2^31 as a float, rounded once: of its upper and its lower 16 bits, which are floats by their bits alone.
float float_of_sum(int sum) {
    precise float upper = hlx_sub(intBitsToFloat(0x4b400000 + (sum >> 16)), 12582912.0);
    precise float lower = hlx_sub(intBitsToFloat(0x4b000000 | (sum & 0xffff)), 8388608.0);
    return hlx_fma(upper, 65536.0, lower);
}

// The four digits of a word.
ivec4 digits_of(uint word) { return ivec4(word << 24, word << 16, word << 8, word) >> 24; }

// The factors of a row's exponent, behind this many words of digits.
#define FACTORS(operand, words, row) hlx_factors(int(operand[(words) + (row)]))

// x times the factors of an exponent.
float folded(float x, vec2 factors) { return hlx_mul(hlx_mul(x, factors.x), factors.y); }
