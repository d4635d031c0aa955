// Rows that are read once for each pass over them, or with HELD once at all and kept in registers: the sums have one order.
// A shader that may be HELD says how many HLX_REDUCTIONS it makes then.
#include "math.glsl"
#ifdef HELD
#include "held_row.glsl"
#define RESTRICT restrict
#else
#include "reduce.glsl"
#define RESTRICT
#endif
