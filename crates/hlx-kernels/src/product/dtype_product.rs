//! The matrix product of 32-bit integers: `C[m,n] = sum over k of A[m,k] B[k,n]`, which wraps.
//!
//! Operands lie as those of [`matmul`](fn@super::matmul); there is no bias, no accumulation and no epilogue. A
//! sum modulo 2^32 is exact, so that no order shows, and i32 and u32 have the same words.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Buffer, DType, Device};

use super::floats::FloatProduct;
use super::shape::MatMul;
use crate::Result;
use crate::error::check_dtype;
use crate::kernel::Kernel;
use crate::parallel::{for_each, write};

shader!(shader, matmul::integers);

const NAME: &str = "matmul_integers";

/// Rows and columns of a workgroup's tile.
const SIDE: usize = 16;

/// Computes a (batch of) matrix product(s) of i32 or u32, all three of one type; matrices of C lie
/// side by side. PyTorch: `torch.bmm` of integers, whose i64 this is modulo 2^32.
///
/// # Errors
/// [`KernelError::Length`](crate::KernelError::Length) for a buffer of another length;
/// [`KernelError::Argument`](crate::KernelError::Argument) for buffers of other or different types, for
/// `accumulate`, and for sizes past 2^32 - 1 elements.
pub fn matmul_integers(
    device: &Device,
    a: &Buffer,
    b: &Buffer,
    c: &Buffer,
    shape: &MatMul,
) -> Result<()> {
    let s = *shape;
    if s.is_empty() {
        return Ok(());
    }
    FloatProduct::new([a, b], c, s).check()?;
    let dtype = c.dtype();
    check_that!(NAME, matches!(dtype, DType::I32 | DType::U32) =>
        "c has dtype {dtype}, expected i32 or u32")?;
    for (argument, buffer) in [("a", a), ("b", b)] {
        check_dtype(NAME, argument, buffer, dtype)?;
    }
    check_that!(NAME, !s.accumulate && s.stride_c == s.m * s.n =>
        "C is overwritten as a whole; accumulate and gaps are of f32 alone")?;
    let [a_row, a_column] = if s.trans_a { [1, s.m] } else { [s.k, 1] };
    let [b_row, b_column] = if s.trans_b { [1, s.k] } else { [s.n, 1] };
    let push = push!(shader =>
        batch: s.batch, m: s.m, n: s.n, k: s.k, a_row, a_column, stride_a: s.stride_a,
        b_row, b_column, stride_b: s.stride_b, stride_c: s.stride_c);
    let kernel = Kernel::new(NAME, &shader::SHADER).reads([a, b]).writes([c]);
    let groups = s.batch * s.m.div_ceil(SIDE) * s.n.div_ceil(SIDE);
    kernel.launch(device, push, groups, move |[a, b], [c]| {
        let (a, b): (&[u32], &[u32]) = (cast_slice(a), cast_slice(b));
        let c = cast_slice_mut::<_, u32>(c);
        if s.k == 0 {
            // There is no row of A to begin at.
            return c.fill(0);
        }
        let per_task = (1 << 14) / (s.n * s.k).max(1) + 1;
        for_each(write(c, per_task * s.n), |task, c| {
            for (row, c) in (task * per_task..).zip(c.chunks_mut(s.n)) {
                let (matrix, row) = (row / s.m, row % s.m);
                let a = &a[matrix * s.stride_a + row * a_row..];
                let b = &b[matrix * s.stride_b..];
                product_row(a, a_column, (b, b_row, b_column), s.k, c);
            }
        });
    })
}

/// A row of a product, from a row of A with its step and B with both of its.
fn product_row(a: &[u32], a_step: usize, b: (&[u32], usize, usize), n_terms: usize, c: &mut [u32]) {
    let (b, b_row, b_column) = b;
    c.fill(0);
    for k in 0..n_terms {
        let (a, b) = (a[k * a_step], b[k * b_row..].iter().step_by(b_column));
        for (c, b) in c.iter_mut().zip(b) {
            *c = c.wrapping_add(a.wrapping_mul(*b));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{elements_of, ids, run_everywhere};

    #[test]
    fn products_wrap_as_the_definition_does() {
        for (batch, [m, n, k]) in [
            (1, [1, 1, 1]),
            (1, [31, 33, 17]),
            (3, [16, 16, 16]),
            (2, [5, 1, 40]),
            (1, [3, 4, 0]),
            (2, [17, 47, 32]),
        ] {
            for (trans_a, trans_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let a = ids(1, batch * m * k, u32::MAX);
                // B is shared by the batch.
                let b = ids(2, k * n, u32::MAX);
                let shape = MatMul {
                    batch,
                    trans_a,
                    trans_b,
                    stride_b: 0,
                    ..MatMul::new(m, n, k)
                };
                let mut expected = vec![0_u32; batch * m * n];
                for (at, c) in expected.iter_mut().enumerate() {
                    let (matrix, row, column) = (at / (m * n), at / n % m, at % n);
                    for i in 0..k {
                        let a_at = if trans_a { i * m + row } else { row * k + i };
                        let b_at = if trans_b {
                            column * k + i
                        } else {
                            i * n + column
                        };
                        let product = a[matrix * m * k + a_at].wrapping_mul(b[b_at]);
                        *c = c.wrapping_add(product);
                    }
                }
                let got = run_everywhere(&format!("matmul_integers {shape:?}"), |device, mem| {
                    let (a, b) = (mem.input_of(device, &a)?, mem.input_of(device, &b)?);
                    let c = mem.output_of(device, DType::U32, batch * m * n)?;
                    matmul_integers(device, &a, &b, &c, &shape)?;
                    Ok(vec![c])
                });
                assert_eq!(elements_of::<u32>(&got[0], expected.len()), expected);
            }
        }
    }

    #[test]
    fn floats_and_sums_of_their_own_are_refused() {
        let device = &hlx_core::testing::cpu().expect("the CPU device");
        let of = |dtype| device.alloc_typed(dtype, 4).expect("memory");
        let shape = MatMul::new(2, 2, 2);
        let message = |a: DType, c: DType, shape: &MatMul| {
            let refused = matmul_integers(device, &of(a), &of(DType::I32), &of(c), shape);
            refused.expect_err("it is refused").to_string()
        };
        let text = message(DType::I32, DType::F32, &shape);
        assert_eq!(
            text,
            "matmul_integers: c has dtype f32, expected i32 or u32"
        );
        let text = message(DType::U32, DType::I32, &shape);
        assert_eq!(text, "matmul_integers: a has dtype u32, expected i32");
        let more = MatMul {
            accumulate: true,
            ..shape
        };
        let text = message(DType::I32, DType::I32, &more);
        assert!(text.contains("accumulate"), "{text}");
    }
}
