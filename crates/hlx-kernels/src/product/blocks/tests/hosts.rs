//! The instructions of this processor against each other.

use hlx_core::cpu::simd_level;

use super::super::cpu::{Operands, instructions, products_by};
use super::*;

#[test]
fn all_instructions_have_the_same_bits() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    for format in &BLOCK_FORMATS {
        let [m, n, k] = [7, 35, 4096 + 2 * format.block];
        let x = device.buffer_of(&awkward(1, m, k))?;
        let a = Prepared::new(&device, &x, Preparation::of_rows(m, k, Digits::Two))?;
        let b = BlockRows::new(&device, format, [n, k], |row, at, block| {
            *block = any_block(format, row, at);
        })?;
        let (digits, exponents) = (device.download(&a.digits)?, device.download(&a.exponents)?);
        let words: Vec<u32> = device.download(&b.words)?;
        let operands = Operands {
            format,
            sizes: [m, n, k],
            digits: &digits,
            exponents: &exponents,
            padded: a.of.padded(),
            words: &words,
            bias: None,
            extra: None,
        };
        let all = 0..m;
        let results = instructions(simd_level()).into_iter().map(|one| {
            let mut c = vec![0.0; m * n];
            hlx_core::cpu::with_flush(|| {
                products_by(one, operands, std::slice::from_ref(&all), &mut c)
            });
            c.iter().map(|c| c.to_bits()).collect::<Vec<u32>>()
        });
        let results: Vec<_> = results.collect();
        for (i, c) in results.iter().enumerate() {
            assert!(*c == results[0], "{}, instructions {i}", format.name);
        }
    }
    Ok(())
}
