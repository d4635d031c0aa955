//! Tests of what comes before a product of few rows: the bits of launches of their own.

use super::halves::Right;
use super::*;
use crate::activation::{Activation, activation_forward};
use crate::elementwise::mul;
use crate::norm::{Norm, NormForward, norm_forward};
use crate::product::floats::Prologue;

const EPS: f32 = 1e-5;
const CUTS: [Cut; 2] = [Cut::Narrow, Cut::Wide];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    RmsNorm,
    Gated,
}

impl Kind {
    fn prologue(self, extra: &Buffer) -> Prologue<'_> {
        match self {
            Self::RmsNorm => Prologue::RmsNorm {
                gain: extra,
                eps: EPS,
            },
            Self::Gated => Prologue::Gated { up: extra },
        }
    }

    /// What the prologue reads beside A.
    fn extra(self, s: &MatMul) -> Vec<f32> {
        match self {
            Self::RmsNorm => normal(6, s.k),
            Self::Gated => normal(7, s.m * s.k),
        }
    }
}

/// A after the prologue, by launches of their own on the CPU.
fn prepared(kind: Kind, case: &Case) -> Vec<f32> {
    let s = &case.shape;
    let device = devices()
        .iter()
        .find(|device| device.is_cpu())
        .expect("the CPU");
    let got = run_on("prepared", device, |device, memory| {
        let a = memory.input(device, &case.a)?;
        let extra = memory.input(device, &kind.extra(s))?;
        let y = memory.output(device, case.a.len())?;
        match kind {
            Kind::RmsNorm => {
                let stats = memory.output(device, s.m)?;
                norm_forward(
                    device,
                    &Norm::rms(s.m, s.k, EPS),
                    &NormForward {
                        x: &a,
                        weight: &extra,
                        bias: None,
                        y: &y,
                        stats: &stats,
                    },
                )?;
            }
            Kind::Gated => {
                let activated = memory.output(device, case.a.len())?;
                activation_forward(device, Activation::SiLU, &a, &activated)?;
                mul(device, &activated, &extra, &y)?;
            }
        }
        Ok(vec![y])
    });
    got.into_iter().flatten().collect()
}

#[test]
fn prologues_have_the_bits_of_separate_launches_on_every_device() {
    let sizes = [(1, 9, 8), (1, 17, 1024), (3, 33, 264), (4, 8, 520)];
    for (i, (m, n, k)) in hlx_core::testing::cases(sizes, 3).enumerate() {
        for (j, kind) in [Kind::RmsNorm, Kind::Gated].into_iter().enumerate() {
            let dtype = Right::TYPES[(i + j) % Right::TYPES.len()];
            let from = [From::Zero, From::Bias][(i + j) % 2];
            let mut case = Case::new(shape(m, n, k, [false, true]), from, normal);
            let b = Right::of(&mut case, dtype);
            let residual = flushed(values(5, m * n));
            let extra = kind.extra(&case.shape);
            let mut of_product = case.clone();
            of_product.a = prepared(kind, &case);
            let mut want = of_product.chain();
            with_flush(|| {
                for (want, r) in want.iter_mut().zip(&residual) {
                    *want += r;
                }
            });
            for cut in [None, Some(CUTS[0]), Some(CUTS[1])] {
                let s = &case.shape;
                let name = format!("{kind:?}, {s:?}, {dtype}, {cut:?}");
                let got = run_everywhere(&name, |device, memory| {
                    let (a, b) = (memory.input(device, &case.a)?, b.upload(device, memory)?);
                    let bias = case.bias().map(|bias| memory.input(device, bias));
                    let bias = bias.transpose()?;
                    let (r, extra) = (
                        memory.input(device, &residual)?,
                        memory.input(device, &extra)?,
                    );
                    let c = memory.output(device, m * n)?;
                    let (prologue, epilogue) = (kind.prologue(&extra), Epilogue::Add(&r));
                    let product = FloatProduct {
                        bias: bias.as_ref(),
                        prologue: Some(prologue),
                        epilogue,
                        ..FloatProduct::new([&a, &b], &c, *s)
                    };
                    match cut {
                        None => product.run(device)?,
                        Some(cut) => product.by_few_rows(device, cut)?,
                    }
                    Ok(vec![c])
                });
                assert_same_bits(&name, &got[0], &want);
            }
        }
    }
}

#[test]
fn unfitting_prologues_are_named() {
    let device = devices()
        .iter()
        .find(|device| device.is_cpu())
        .expect("the CPU");
    let memory = |n| device.alloc(n).expect("memory");
    let (a, b, c, gain) = (memory(8), memory(24), memory(3), memory(7));
    let s = shape(1, 3, 8, [false, true]);
    let refused = |prologue, s: &MatMul| {
        let product = FloatProduct {
            prologue: Some(prologue),
            ..FloatProduct::new([&a, &b], &c, *s)
        };
        product.run(device).expect_err("refused").to_string()
    };
    let text = refused(Kind::RmsNorm.prologue(&gain), &s);
    assert_eq!(text, "matmul: gain has 7 elements, expected 8");
    let text = refused(Kind::Gated.prologue(&gain), &s);
    assert_eq!(text, "matmul: up has 7 elements, expected 8");
}
