// Sums, products and selections of two operands.

float add_f32(float a, float b) { return hlx_add(a, b); }
uint add_int(uint a, uint b) { return a + b; }
float sub_f32(float a, float b) { return hlx_sub(a, b); }
uint sub_int(uint a, uint b) { return a - b; }
float mul_f32(float a, float b) { return hlx_mul(a, b); }
uint mul_int(uint a, uint b) { return a * b; }

// b where they are equal (so the second zero of two); NaN if either is NaN.
float maximum_f32(float a, float b) { return hlx_max(a, b); }
int maximum_i32(int a, int b) { return max(a, b); }
uint maximum_u32(uint a, uint b) { return max(a, b); }
float minimum_f32(float a, float b) { return a < b || hlx_isnan(a) ? a : b; }
int minimum_i32(int a, int b) { return min(a, b); }
uint minimum_u32(uint a, uint b) { return min(a, b); }
