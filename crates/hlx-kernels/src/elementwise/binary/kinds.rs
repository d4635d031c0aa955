//! The binary operations, written by `cargo xtask shaders` from
//! `shaders/include/binary.txt`.

shader!(binary::{
    add, sub, mul, div, remainder, floor_divide, maximum, minimum, eq, ne, lt, le, gt, ge,
    logical_and, logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor, left_shift,
    right_shift, pow, atan2,
});

/// Calls `each!` with what comes behind it and a line for every [`Binary`](super::Binary): its documentation, name,
/// variant, whether the result is a truth value, and its formulas by compute type.
#[doc(hidden)] // For the methods of tensors in hlx-autograd.
#[macro_export]
macro_rules! for_each_binary {
    ($each:ident $($head:tt)*) => {
        $each! {
            $($head)*
            /// Computes a + b: `torch.add`.
            add Add false [add_f32] [add_int] [add_int];
            /// Computes a - b: `torch.sub`.
            sub Sub false [sub_f32] [sub_int] [sub_int];
            /// Computes a b: `torch.mul`.
            mul Mul false [mul_f32] [mul_int] [mul_int];
            /// Computes a / b; of integers the quotient without its fraction: `torch.div`.
            div Div false [div_f32] [div_i32] [div_u32];
            /// Computes a - b floor(a / b), with the divisor's sign: `torch.remainder`.
            remainder Remainder false [remainder_f32] [remainder_i32] [remainder_u32];
            /// Computes floor(a / b): `torch.floor_divide`.
            floor_divide FloorDivide false [floor_divide_f32] [floor_divide_i32] [floor_divide_u32];
            /// Computes the larger, NaN if either is: `torch.maximum`.
            maximum Maximum false [maximum_f32] [maximum_i32] [maximum_u32];
            /// Computes the smaller, NaN if either is: `torch.minimum`.
            minimum Minimum false [minimum_f32] [minimum_i32] [minimum_u32];
            /// Tells whether a = b: `torch.eq`.
            eq Eq true [eq_f32] [eq_int] [eq_int];
            /// Tells whether a and b differ: `torch.ne`.
            ne Ne true [ne_f32] [ne_int] [ne_int];
            /// Tells whether a < b: `torch.lt`.
            lt Lt true [lt_f32] [lt_i32] [lt_u32];
            /// Tells whether a <= b: `torch.le`.
            le Le true [le_f32] [le_i32] [le_u32];
            /// Tells whether a > b: `torch.gt`.
            gt Gt true [gt_f32] [gt_i32] [gt_u32];
            /// Tells whether a >= b: `torch.ge`.
            ge Ge true [ge_f32] [ge_i32] [ge_u32];
            /// Tells whether both are other than 0: `torch.logical_and`.
            logical_and LogicalAnd true [logical_and_f32] [logical_and_int] [logical_and_int];
            /// Tells whether one is other than 0: `torch.logical_or`.
            logical_or LogicalOr true [logical_or_f32] [logical_or_int] [logical_or_int];
            /// Tells whether exactly one is other than 0: `torch.logical_xor`.
            logical_xor LogicalXor true [logical_xor_f32] [logical_xor_int] [logical_xor_int];
            /// Computes the bits that both have: `torch.bitwise_and`.
            bitwise_and BitwiseAnd false [] [bitwise_and_int] [bitwise_and_int];
            /// Computes the bits that one has: `torch.bitwise_or`.
            bitwise_or BitwiseOr false [] [bitwise_or_int] [bitwise_or_int];
            /// Computes the bits that exactly one has: `torch.bitwise_xor`.
            bitwise_xor BitwiseXor false [] [bitwise_xor_int] [bitwise_xor_int];
            /// Computes a 2^b, and 0 from b = 32 on: `torch.bitwise_left_shift`.
            left_shift LeftShift false [] [left_shift_int] [left_shift_int];
            /// Computes floor(a / 2^b): `torch.bitwise_right_shift`.
            right_shift RightShift false [] [right_shift_i32] [right_shift_u32];
            /// Computes a^b: `torch.pow`.
            pow Pow false [pow_f32] [pow_i32] [pow_u32];
            /// Computes the angle of the point (b, a): `torch.atan2`.
            atan2 Atan2 false [atan2_f32] [] [];
        }
    };
}
