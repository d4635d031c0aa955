// Comparisons and logic. Zeros are equal; NaN is equal to nothing, not even itself, and true.

bool eq_f32(float a, float b) { return a == b; }
bool eq_int(uint a, uint b) { return a == b; }
bool ne_f32(float a, float b) { return !(a == b); }
bool ne_int(uint a, uint b) { return a != b; }
bool lt_f32(float a, float b) { return a < b; }
bool lt_i32(int a, int b) { return a < b; }
bool lt_u32(uint a, uint b) { return a < b; }
bool le_f32(float a, float b) { return a <= b; }
bool le_i32(int a, int b) { return a <= b; }
bool le_u32(uint a, uint b) { return a <= b; }
bool gt_f32(float a, float b) { return a > b; }
bool gt_i32(int a, int b) { return a > b; }
bool gt_u32(uint a, uint b) { return a > b; }
bool ge_f32(float a, float b) { return a >= b; }
bool ge_i32(int a, int b) { return a >= b; }
bool ge_u32(uint a, uint b) { return a >= b; }

bool is_true(float x) { return (floatBitsToUint(x) & HLX_MAGNITUDE) != 0u; }
bool logical_and_f32(float a, float b) { return is_true(a) && is_true(b); }
bool logical_and_int(uint a, uint b) { return a != 0u && b != 0u; }
bool logical_or_f32(float a, float b) { return is_true(a) || is_true(b); }
bool logical_or_int(uint a, uint b) { return a != 0u || b != 0u; }
bool logical_xor_f32(float a, float b) { return is_true(a) != is_true(b); }
bool logical_xor_int(uint a, uint b) { return (a != 0u) != (b != 0u); }
