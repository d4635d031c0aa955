// The two kinds of norm: n = (x - mean) rstd, and y of it.
//   CENTRED (layer norm)   y = fma(n, weight, bias); a row's statistics are (mean, rstd)
//   else (RMS norm)        n = x rstd; y = n weight; a row's statistics are rstd
// A shader defines what MEAN and RSTD of the row are, and includes this file before its buffers.
#include "../include/row.glsl"

#ifdef CENTRED
#define STATISTICS vec2
#define NORMAL(x) hlx_mul(hlx_sub(x, MEAN), RSTD)
#define RESULT(normal, col) hlx_fma(normal, weight[col], bias[col])
#define STORE_STATS(row, found) \
    stats[2u * row] = found.x; \
    stats[2u * row + 1u] = found.y;
#else
#define STATISTICS float
#define NORMAL(x) hlx_mul(x, RSTD)
#define RESULT(normal, col) hlx_mul(normal, weight[col])
#define STORE_STATS(row, found) stats[row] = found;
#endif
