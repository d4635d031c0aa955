// Bits of integers. A shift by less than 0 is one by 32 or more.

uint bitwise_and_int(uint a, uint b) { return a & b; }
uint bitwise_or_int(uint a, uint b) { return a | b; }
uint bitwise_xor_int(uint a, uint b) { return a ^ b; }
uint left_shift_int(uint a, uint b) { return b < 32u ? a << b : 0u; }
int right_shift_i32(int a, int b) { return a >> min(uint(b), 31u); }
uint right_shift_u32(uint a, uint b) { return b < 32u ? a >> b : 0u; }
