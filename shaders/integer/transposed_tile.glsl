// A workgroup's tile of integers of 32 columns, which shared memory transposes into rows of digits. A shader declares the buffer
// `digits`, push.columns and push.words.
layout(constant_id = 0) const bool WIDE = false;

const uint COLUMNS = 32u;
// Words of a column of the tile: a thread has one of four columns.
const uint WORDS = 32u;
const uint STRIDE = WORDS + 1u;
const uint PLANES = WIDE ? 2u : 1u;

shared uint tile[2u * COLUMNS * STRIDE];

// Declares the first of a thread's four columns, and its word of each.
#define DECLARE_OWN \
    uint own = 4u * (gl_LocalInvocationIndex % (COLUMNS / 4u)); \
    uint own_word = gl_LocalInvocationIndex / (COLUMNS / 4u);

// Keeps the four integers of a thread's column c.
#define KEEP_DIGITS(q, c) \
    uint to = (own + c) * STRIDE + own_word; \
    tile[to] = WIDE ? hlx_upper_digits(q) : hlx_lower_digits(q); \
    if (WIDE) tile[COLUMNS * STRIDE + to] = hlx_lower_digits(q);

// Stores the tile, of the columns from first_column on and their words from first_word on: a column is a row of digits, of which
// there are n_rows. In pieces threads side by side have neighbouring columns, else neighbouring words.
#define STORE_TILE(n_rows, row, first_word, in_pieces) \
    [[unroll]] for (uint l = 0u; l < PLANES * COLUMNS * WORDS / 256u; ++l) { \
        uint at = gl_LocalInvocationIndex + l * 256u; \
        uint line = in_pieces ? at / (WORDS * 16u) * 16u + at / 4u % 16u : at / WORDS; \
        uint of_line = in_pieces ? at / 64u % (WORDS / 4u) * 4u + at % 4u : at % WORDS; \
        uint column = first_column + line % COLUMNS; \
        uint word = first_word + of_line; \
        uint plane = line / COLUMNS * hlx_plane(n_rows, push.words, in_pieces); \
        if (column < push.columns && word < push.words) \
            digits[plane + hlx_word_at(row, word, PLANES, n_rows, push.words, in_pieces)] = tile[line * STRIDE + of_line]; \
    }
