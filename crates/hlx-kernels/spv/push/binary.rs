//! Push constants of the modules of binary.

blocks! {
    add, atan2, bitwise_and, bitwise_or, bitwise_xor, div, eq, floor_divide, ge, gt, le, left_shift,
    logical_and, logical_or, logical_xor, lt, maximum, minimum, mul, ne, pow, remainder, right_shift, sub {
        count: u32, parameters: [u32; 2], offsets: [u32; 2], extents: [u32; 7], strides: [u32; 16]
    }
}
