// Units of 16 bytes in shared memory, from which matrices are loaded: of words with WORDS, for matrices of less depth.
#ifdef WORDS
#define PARTS 4u
#define UNITS(name, count) shared uint name[PARTS * (count)]
#define PUT_WORD(name, unit, word, v) name[PARTS * (unit) + (word)] = v
#define PUT(name, unit, v) { for (uint part = 0u; part < PARTS; ++part) PUT_WORD(name, unit, part, (v)[part]); }
#define GOT(name, unit) \
    uvec4(name[PARTS * (unit)], name[PARTS * (unit) + 1u], name[PARTS * (unit) + 2u], name[PARTS * (unit) + 3u])
#else
#define PARTS 1u
#define UNITS(name, count) shared uvec4 name[count]
#define PUT_WORD(name, unit, word, v) name[unit][word] = v
#define PUT(name, unit, v) name[unit] = v;
#define GOT(name, unit) name[unit]
#endif
// Where the byte of a row lies, and the step between rows of so many units, in what matrices are loaded from.
#define AT(unit, byte) ((unit) * PARTS + (byte) * PARTS / 16u)
#define ROW(units) ((units) * PARTS)
