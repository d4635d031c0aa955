//! Few rows whose integers the product makes itself: the bits of launches of their own, which the CPU has.

use hlx_core::testing::cases;

use super::*;
use crate::product::floats::Prologue;
use crate::product::quantised::FewRows;

/// What a row goes through before its product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Before {
    Nothing,
    Gate,
    Norm,
}

impl Before {
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Gate, Self::Norm];

    /// The numbers of its operand.
    pub fn numbers(self, m: usize, k: usize) -> Vec<f32> {
        match self {
            Self::Norm => normal(5, k),
            _ => normal(6, m * k),
        }
    }

    pub const fn prologue(self, operand: &Buffer) -> Option<Prologue<'_>> {
        match self {
            Self::Nothing => None,
            Self::Gate => Some(Prologue::Gated { up: operand }),
            Self::Norm => Some(Prologue::RmsNorm {
                gain: operand,
                eps: 1e-5,
            }),
        }
    }
}

fn check(before: Before, [m, n, k]: [usize; 3], [has_bias, adds]: [bool; 2], fits: bool) {
    let name = format!("{before:?} {m} {n} {k} {has_bias} {adds}");
    let (x, w) = (awkward(1, m, k), awkward(2, n, k));
    let (bias, residual) = (normal(3, n), normal(4, m * n));
    let of_prologue = before.numbers(m, k);
    for way in 0..3 {
        run_everywhere(&name, |device, mem| {
            let device = &every_way(device)[way];
            let x = mem.input(device, &x)?;
            let extra = mem.input(device, &of_prologue)?;
            let [_, layout] = layouts(device);
            let of = Preparation::of_rows(n, k, Digits::One);
            let weight = prepared(device, mem, &w, Preparation { layout, ..of })?;
            let (bias, residual) = (mem.input(device, &bias)?, mem.input(device, &residual)?);
            let c = mem.output(device, m * n)?;
            let product = FewRows {
                x: &x,
                prologue: before.prologue(&extra),
                bias: has_bias.then_some(&bias),
                added: adds.then_some(&residual),
                m,
            };
            assert_eq!(
                product.fits(device, &weight),
                fits && !device.is_cpu(),
                "{name}"
            );
            product.run(device, &weight, &c)?;
            Ok(vec![c])
        });
    }
}

#[test]
fn few_rows_have_the_bits_of_separate_launches() {
    let sizes = [
        ([1, 40, 1024], true),
        ([2, 17, 64], true),
        ([3, 16, 640], true),
        ([4, 33, 1536], true),
        ([1, 5, 4096], true),
        // A row of two pieces, one that is not of whole units, and too many rows.
        ([1, 9, 4160], false),
        ([2, 9, 100], false),
        ([5, 9, 128], false),
    ];
    for (i, (sizes, fits)) in cases(sizes, 4).enumerate() {
        for (j, before) in Before::ALL.into_iter().enumerate() {
            check(before, sizes, [(i + j) % 2 == 0, (i + j) % 3 == 0], fits);
        }
    }
}
