// Unary operations that round to whole numbers; integers stay.
#include "../rounding.glsl"

float floor_f32(float x) { return hlx_floor(x); }
float ceil_f32(float x) { return hlx_ceil(x); }
float round_f32(float x) { return hlx_round(x); }
float trunc_f32(float x) { return hlx_trunc(x); }
uint floor_int(uint x) { return x; }
uint ceil_int(uint x) { return x; }
uint round_int(uint x) { return x; }
uint trunc_int(uint x) { return x; }
