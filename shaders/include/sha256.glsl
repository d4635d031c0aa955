// The parts of SHA-256's compression function (FIPS 180-4, section 6.2.2), which takes a block of 16 words.
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

// A round whose schedule's word and constant have this sum. Choice and majority each in a form of few
// operations: (e & f) | (~e & g), and (a & b) | (a & c) | (b & c).
#define SHA256_ROUND(a, b, c, d, e, f, g, h, word) \
    h += sha256_sum_1(e) + (g ^ (e & (f ^ g))) + word; \
    d += h; \
    h += sha256_sum_0(a) + ((a & b) | (c & (a | b)));

// Makes word w of the schedule, from the 17th on, in the place of the oldest.
#define SHA256_SCHEDULE(w) \
    sha256_block[(w) & 15] += sha256_mix_0(sha256_block[((w) + 1) & 15]) + sha256_block[((w) + 9) & 15] \
        + sha256_mix_1(sha256_block[((w) + 14) & 15]);

// STEP(a, b, c, d, e, f, g, h, constant, word) for eight rounds, after which each variable has its name again.
#define SHA256_EIGHT(STEP, w, k_0, k_1, k_2, k_3, k_4, k_5, k_6, k_7) \
    STEP(a, b, c, d, e, f, g, h, k_0, w + 0) \
    STEP(h, a, b, c, d, e, f, g, k_1, w + 1) \
    STEP(g, h, a, b, c, d, e, f, k_2, w + 2) \
    STEP(f, g, h, a, b, c, d, e, k_3, w + 3) \
    STEP(e, f, g, h, a, b, c, d, k_4, w + 4) \
    STEP(d, e, f, g, h, a, b, c, k_5, w + 5) \
    STEP(c, d, e, f, g, h, a, b, k_6, w + 6) \
    STEP(b, c, d, e, f, g, h, a, k_7, w + 7)

// Section 4.2.2: the rounds' constants. FIRST is the step of the first 16 rounds, LATER that of the others.
#define SHA256_STEPS(FIRST, LATER) \
    SHA256_EIGHT(FIRST, 0, 0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u) \
    SHA256_EIGHT(FIRST, 8, 0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u) \
    SHA256_EIGHT(LATER, 16, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau) \
    SHA256_EIGHT(LATER, 24, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u) \
    SHA256_EIGHT(LATER, 32, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u) \
    SHA256_EIGHT(LATER, 40, 0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u) \
    SHA256_EIGHT(LATER, 48, 0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u) \
    SHA256_EIGHT(LATER, 56, 0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u)

// The working variables, and their sum with the state.
#define SHA256_VARIABLES \
    uint a = sha256_state[0], b = sha256_state[1], c = sha256_state[2], d = sha256_state[3]; \
    uint e = sha256_state[4], f = sha256_state[5], g = sha256_state[6], h = sha256_state[7];
#define SHA256_ADD_VARIABLES \
    sha256_state[0] += a; \
    sha256_state[1] += b; \
    sha256_state[2] += c; \
    sha256_state[3] += d; \
    sha256_state[4] += e; \
    sha256_state[5] += f; \
    sha256_state[6] += g; \
    sha256_state[7] += h;
