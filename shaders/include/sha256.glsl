// The compression function of SHA-256 (FIPS 180-4, section 6.2.2), a block of 16 words a call.
//
// Every index is a constant: the schedule is a ring of 16 words in registers, the eight working
// variables change their names from round to round instead of their places, and the round
// constants are operands of the instructions.

uint sha256_state[8];
uint sha256_block[16];  // Words as SHA-256 reads them (the first byte highest); overwritten.

uint sha256_rotate(uint x, uint bits) { return (x >> bits) | (x << (32u - bits)); }

// Swaps the bytes of a word: two rotations and a selection.
uint sha256_swap(uint x) {
    return (sha256_rotate(x, 24u) & 0x00ff00ffu) | (sha256_rotate(x, 8u) & 0xff00ff00u);
}

// Section 4.1.2: the two functions of the rounds, and the two of the schedule.
uint sha256_sum_0(uint x) { return sha256_rotate(x, 2u) ^ sha256_rotate(x, 13u) ^ sha256_rotate(x, 22u); }
uint sha256_sum_1(uint x) { return sha256_rotate(x, 6u) ^ sha256_rotate(x, 11u) ^ sha256_rotate(x, 25u); }
uint sha256_mix_0(uint x) { return sha256_rotate(x, 7u) ^ sha256_rotate(x, 18u) ^ (x >> 3); }
uint sha256_mix_1(uint x) { return sha256_rotate(x, 17u) ^ sha256_rotate(x, 19u) ^ (x >> 10); }

// A round with constant k and the schedule's word w. Choice and majority each in a form of few
// operations: (e & f) | (~e & g), and (a & b) | (a & c) | (b & c).
#define FIRST(a, b, c, d, e, f, g, h, k, w) \
    h += sha256_sum_1(e) + (g ^ (e & (f ^ g))) + (k + sha256_block[w]); \
    d += h; \
    h += sha256_sum_0(a) + ((a & b) | (c & (a | b)));

// A round from the 17th on: first makes its word of the schedule in the place of the oldest.
#define ROUND(a, b, c, d, e, f, g, h, k, w) \
    sha256_block[w] += sha256_mix_0(sha256_block[(w + 1) & 15]) + sha256_block[(w + 9) & 15] \
        + sha256_mix_1(sha256_block[(w + 14) & 15]); \
    FIRST(a, b, c, d, e, f, g, h, k, w)

void sha256_compress() {
    uint a = sha256_state[0], b = sha256_state[1], c = sha256_state[2], d = sha256_state[3];
    uint e = sha256_state[4], f = sha256_state[5], g = sha256_state[6], h = sha256_state[7];
    FIRST(a, b, c, d, e, f, g, h, 0x428a2f98u, 0)
    FIRST(h, a, b, c, d, e, f, g, 0x71374491u, 1)
    FIRST(g, h, a, b, c, d, e, f, 0xb5c0fbcfu, 2)
    FIRST(f, g, h, a, b, c, d, e, 0xe9b5dba5u, 3)
    FIRST(e, f, g, h, a, b, c, d, 0x3956c25bu, 4)
    FIRST(d, e, f, g, h, a, b, c, 0x59f111f1u, 5)
    FIRST(c, d, e, f, g, h, a, b, 0x923f82a4u, 6)
    FIRST(b, c, d, e, f, g, h, a, 0xab1c5ed5u, 7)
    FIRST(a, b, c, d, e, f, g, h, 0xd807aa98u, 8)
    FIRST(h, a, b, c, d, e, f, g, 0x12835b01u, 9)
    FIRST(g, h, a, b, c, d, e, f, 0x243185beu, 10)
    FIRST(f, g, h, a, b, c, d, e, 0x550c7dc3u, 11)
    FIRST(e, f, g, h, a, b, c, d, 0x72be5d74u, 12)
    FIRST(d, e, f, g, h, a, b, c, 0x80deb1feu, 13)
    FIRST(c, d, e, f, g, h, a, b, 0x9bdc06a7u, 14)
    FIRST(b, c, d, e, f, g, h, a, 0xc19bf174u, 15)
    ROUND(a, b, c, d, e, f, g, h, 0xe49b69c1u, 0)
    ROUND(h, a, b, c, d, e, f, g, 0xefbe4786u, 1)
    ROUND(g, h, a, b, c, d, e, f, 0x0fc19dc6u, 2)
    ROUND(f, g, h, a, b, c, d, e, 0x240ca1ccu, 3)
    ROUND(e, f, g, h, a, b, c, d, 0x2de92c6fu, 4)
    ROUND(d, e, f, g, h, a, b, c, 0x4a7484aau, 5)
    ROUND(c, d, e, f, g, h, a, b, 0x5cb0a9dcu, 6)
    ROUND(b, c, d, e, f, g, h, a, 0x76f988dau, 7)
    ROUND(a, b, c, d, e, f, g, h, 0x983e5152u, 8)
    ROUND(h, a, b, c, d, e, f, g, 0xa831c66du, 9)
    ROUND(g, h, a, b, c, d, e, f, 0xb00327c8u, 10)
    ROUND(f, g, h, a, b, c, d, e, 0xbf597fc7u, 11)
    ROUND(e, f, g, h, a, b, c, d, 0xc6e00bf3u, 12)
    ROUND(d, e, f, g, h, a, b, c, 0xd5a79147u, 13)
    ROUND(c, d, e, f, g, h, a, b, 0x06ca6351u, 14)
    ROUND(b, c, d, e, f, g, h, a, 0x14292967u, 15)
    ROUND(a, b, c, d, e, f, g, h, 0x27b70a85u, 0)
    ROUND(h, a, b, c, d, e, f, g, 0x2e1b2138u, 1)
    ROUND(g, h, a, b, c, d, e, f, 0x4d2c6dfcu, 2)
    ROUND(f, g, h, a, b, c, d, e, 0x53380d13u, 3)
    ROUND(e, f, g, h, a, b, c, d, 0x650a7354u, 4)
    ROUND(d, e, f, g, h, a, b, c, 0x766a0abbu, 5)
    ROUND(c, d, e, f, g, h, a, b, 0x81c2c92eu, 6)
    ROUND(b, c, d, e, f, g, h, a, 0x92722c85u, 7)
    ROUND(a, b, c, d, e, f, g, h, 0xa2bfe8a1u, 8)
    ROUND(h, a, b, c, d, e, f, g, 0xa81a664bu, 9)
    ROUND(g, h, a, b, c, d, e, f, 0xc24b8b70u, 10)
    ROUND(f, g, h, a, b, c, d, e, 0xc76c51a3u, 11)
    ROUND(e, f, g, h, a, b, c, d, 0xd192e819u, 12)
    ROUND(d, e, f, g, h, a, b, c, 0xd6990624u, 13)
    ROUND(c, d, e, f, g, h, a, b, 0xf40e3585u, 14)
    ROUND(b, c, d, e, f, g, h, a, 0x106aa070u, 15)
    ROUND(a, b, c, d, e, f, g, h, 0x19a4c116u, 0)
    ROUND(h, a, b, c, d, e, f, g, 0x1e376c08u, 1)
    ROUND(g, h, a, b, c, d, e, f, 0x2748774cu, 2)
    ROUND(f, g, h, a, b, c, d, e, 0x34b0bcb5u, 3)
    ROUND(e, f, g, h, a, b, c, d, 0x391c0cb3u, 4)
    ROUND(d, e, f, g, h, a, b, c, 0x4ed8aa4au, 5)
    ROUND(c, d, e, f, g, h, a, b, 0x5b9cca4fu, 6)
    ROUND(b, c, d, e, f, g, h, a, 0x682e6ff3u, 7)
    ROUND(a, b, c, d, e, f, g, h, 0x748f82eeu, 8)
    ROUND(h, a, b, c, d, e, f, g, 0x78a5636fu, 9)
    ROUND(g, h, a, b, c, d, e, f, 0x84c87814u, 10)
    ROUND(f, g, h, a, b, c, d, e, 0x8cc70208u, 11)
    ROUND(e, f, g, h, a, b, c, d, 0x90befffau, 12)
    ROUND(d, e, f, g, h, a, b, c, 0xa4506cebu, 13)
    ROUND(c, d, e, f, g, h, a, b, 0xbef9a3f7u, 14)
    ROUND(b, c, d, e, f, g, h, a, 0xc67178f2u, 15)
    sha256_state[0] += a;
    sha256_state[1] += b;
    sha256_state[2] += c;
    sha256_state[3] += d;
    sha256_state[4] += e;
    sha256_state[5] += f;
    sha256_state[6] += g;
    sha256_state[7] += h;
}
