//! Push constants of the modules of arith.

blocks! {
    every, every_exp_log, every_trigonometric { count: u32, first: u32, stride: u32 }
    random { count: u32, key_0: u32, key_1: u32 }
    sweep { count: u32, op: u32 }
}
