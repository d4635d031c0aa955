//! Tests of a B of 16 bits: the bits of the product with the widened B.

use half::{bf16, f16};
use hlx_core::cpu::simd_levels;
use hlx_core::{CoreError, Element};

use super::*;
use crate::testing::TestMemory;

/// A B of any float type, and the f32 values that it stands for.
pub(super) enum Right {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

impl Right {
    pub(super) const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

    /// Rounds the values of a case's B to a type, and gives the case what they are then.
    pub(super) fn of(case: &mut Case, dtype: DType) -> Self {
        match dtype {
            DType::F16 => {
                // Among what f16 holds: subnormals, which count, and both zeros.
                let values = case.b.iter().map(|&x| f16::from_f32(x % 60_000.0));
                let values: Vec<f16> = values.collect();
                case.b = values.iter().map(|x| x.to_f32()).collect();
                Self::F16(values)
            }
            DType::BF16 => {
                let values: Vec<bf16> = case.b.iter().map(|&x| bf16::from_f32(x)).collect();
                case.b = flushed(values.iter().map(|x| x.to_f32()).collect());
                Self::BF16(values)
            }
            _ => Self::F32(case.b.clone()),
        }
    }

    pub(super) fn upload(
        &self,
        device: &Device,
        memory: &mut TestMemory,
    ) -> Result<Buffer, CoreError> {
        match self {
            Self::F32(values) => memory.input(device, values),
            Self::F16(values) => memory.input_of(device, values),
            Self::BF16(values) => memory.input_of(device, values),
        }
    }

    /// The words as the CPU's body reads them.
    fn words(&self) -> Vec<f32> {
        let words = |pack: Vec<u32>| pack.into_iter().map(f32::from_bits).collect();
        match self {
            Self::F32(values) => values.clone(),
            Self::F16(values) => words(pairs(values)),
            Self::BF16(values) => words(pairs(&flushed_halves(values))),
        }
    }
}

/// What an upload makes of the values.
fn flushed_halves(values: &[bf16]) -> Vec<bf16> {
    let flush = |x: &bf16| match x.to_f32().is_subnormal() {
        true => bf16::from_bits(x.to_bits() & 0x8000),
        false => *x,
    };
    values.iter().map(flush).collect()
}

fn pairs<T: Element + bytemuck::Pod>(values: &[T]) -> Vec<u32> {
    let mut values: Vec<u16> = bytemuck::cast_slice(values).to_vec();
    values.resize(values.len().next_multiple_of(2), 0);
    let pairs = values.as_chunks::<2>().0.iter();
    pairs
        .map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16)
        .collect()
}

#[test]
fn products_with_a_b_of_16_bits_have_the_bits_of_the_widened_one() {
    let sizes = [(1, 40, 24), (3, 33, 17), (20, 35, 32), (37, 64, 9)];
    for (i, (m, n, k)) in sizes.into_iter().enumerate() {
        for (j, trans) in TRANSPOSES.into_iter().enumerate() {
            let dtype = Right::TYPES[1 + (i + j) % 2];
            let shape = MatMul {
                // Matrices of a batch start within a word of B where n k is odd.
                batch: if j == 0 { 3 } else { 1 },
                ..shape(m, n, k, trans)
            };
            let mut case = Case::new(shape, STARTS[(i + j) % 3], values);
            let b = Right::of(&mut case, dtype);
            let outputs = run_everywhere(&format!("{shape:?}, B of {dtype}"), |device, memory| {
                let (a, b) = (memory.input(device, &case.a)?, b.upload(device, memory)?);
                let bias = case.bias().map(|bias| memory.input(device, bias));
                let bias = bias.transpose()?;
                let c = memory.input(device, &case.c)?;
                matmul(device, &a, &b, bias.as_ref(), &c, &case.shape)?;
                Ok(vec![c])
            });
            assert_same_bits(&format!("{shape:?}"), &outputs[0], &case.chain());
        }
    }
}

#[test]
fn every_instruction_set_has_the_bits_of_the_widened_product() {
    for (i, (m, n, k)) in [(1, 100, 800), (2, 3, 41), (31, 48, 8), (300, 65, 390)]
        .into_iter()
        .enumerate()
    {
        for (j, trans) in TRANSPOSES.into_iter().enumerate() {
            for dtype in Right::TYPES {
                let from = STARTS[(i + j) % 3];
                let mut case = Case::new(shape(m, n, k, trans), from, values);
                let words = Right::of(&mut case, dtype).words();
                let want = case.chain();
                for level in simd_levels() {
                    let mut c = case.c.clone();
                    let b = (&words[..], dtype);
                    with_flush(|| {
                        cpu::matmul(level, &case.shape, &case.a, b, case.bias(), &mut c);
                    });
                    assert_same_bits(&format!("{:?} {level:?} {dtype}", case.shape), &c, &want);
                }
            }
        }
    }
}

#[test]
fn a_b_of_integers_is_refused() {
    let device = &devices()[0];
    let of = |dtype| device.alloc_typed(dtype, 4).expect("memory");
    let shape = MatMul::new(2, 2, 2);
    let [a, c] = [DType::F32; 2].map(of);
    let refused = matmul(device, &a, &of(DType::I32), None, &c, &shape);
    let text = refused.expect_err("it is refused").to_string();
    assert_eq!(text, "matmul: b has dtype i32, expected f32, f16 or bf16");
}
