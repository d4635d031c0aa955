//! Tests of the optimizers: torch.optim's formulas in f64, windows, and a recorded step.

use super::*;
use crate::testing::{assert_close, normal, own_contexts, run_everywhere, run_on_each, values};

const STEPS: u64 = 5;
const CLIP: f32 = 0.75;
const SIZES: [usize; 5] = [1, 31, 33, 1009, 5000];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sgd,
    SgdMomentum,
    Adam,
    AdamW,
}

fn hyper(kind: Kind, step: u64) -> Hyper {
    Hyper {
        step,
        // A rate that moves, as a schedule does.
        learning_rate: 0.01 / step as f64,
        momentum: if kind == Kind::SgdMomentum { 0.9 } else { 0.0 },
        weight_decay: 0.1,
        ..Hyper::default()
    }
}

fn gradient(step: u64, n: usize) -> Vec<f32> {
    normal(100 + step, n)
}

/// torch.optim's update of one element in f64.
fn reference(kind: Kind, p: &mut f64, m: &mut f64, v: &mut f64, g: f64, h: Hyper) {
    let mut g = f64::from(CLIP) * g;
    match kind {
        Kind::AdamW => *p *= 1.0 - h.learning_rate * h.weight_decay,
        _ => g += h.weight_decay * *p,
    }
    if matches!(kind, Kind::Sgd | Kind::SgdMomentum) {
        *m = h.momentum * *m + g;
        *p -= h.learning_rate * *m;
        return;
    }
    *m = h.beta1 * *m + (1.0 - h.beta1) * g;
    *v = h.beta2 * *v + (1.0 - h.beta2) * g * g;
    let correction1 = 1.0 - h.beta1.powf(h.step as f64);
    let correction2 = 1.0 - h.beta2.powf(h.step as f64);
    let denominator = v.sqrt() / correction2.sqrt() + h.epsilon;
    *p -= h.learning_rate / correction1 * *m / denominator;
}

fn five_steps(kind: Kind, initial: &[f32]) -> Vec<Vec<f32>> {
    let n = initial.len();
    run_everywhere(&format!("{kind:?}"), |ctx, mem| {
        let params = mem.input(ctx, initial)?;
        let (m, v) = (
            mem.input(ctx, &vec![0.0; n])?,
            mem.input(ctx, &vec![0.0; n])?,
        );
        let clip = mem.input(ctx, &[CLIP])?;
        for step in 1..=STEPS {
            let grads = mem.input(ctx, &gradient(step, n))?;
            let hyper = mem.input_u32(ctx, &hyper(kind, step).to_words())?;
            match kind {
                Kind::Sgd => sgd_step(ctx, &params, &grads, None, &hyper, &clip)?,
                Kind::SgdMomentum => {
                    sgd_step(ctx, &params, &grads, Some(&m), &hyper, &clip)?;
                }
                Kind::Adam => adam_step(ctx, &params, &grads, &m, &v, &hyper, &clip)?,
                Kind::AdamW => adamw_step(ctx, &params, &grads, &m, &v, &hyper, &clip)?,
            }
        }
        Ok(vec![params, m, v])
    })
}

#[test]
fn five_steps_follow_torch_in_f64() {
    for kind in [Kind::Sgd, Kind::SgdMomentum, Kind::Adam, Kind::AdamW] {
        for n in SIZES {
            let initial = normal(1, n);
            let got = five_steps(kind, &initial);
            let mut params: Vec<f64> = initial.iter().map(|p| f64::from(*p)).collect();
            let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
            for step in 1..=STEPS {
                let grads = gradient(step, n);
                for i in 0..n {
                    let g = f64::from(grads[i]);
                    let (p, m, v) = (&mut params[i], &mut m[i], &mut v[i]);
                    reference(kind, p, m, v, g, hyper(kind, step));
                }
            }
            assert_close(&format!("{kind:?}"), &got[0], &params, 1e-6, 1e-6);
            if kind != Kind::Sgd {
                assert_close(&format!("{kind:?} m"), &got[1], &m, 1e-5, 1e-6);
                assert_close(&format!("{kind:?} v"), &got[2], &v, 1e-5, 1e-9);
            }
        }
    }
}

/// A step recorded once and replayed with the next step's numbers is the step itself.
#[test]
fn a_recorded_step_follows_its_hyper_buffer() {
    let (initial, n) = (normal(4, 333), 333);
    let eager = five_steps(Kind::AdamW, &initial);
    let replayed = run_on_each("adamw_step", &own_contexts(), |ctx, mem| {
        let params = mem.input(ctx, &initial)?;
        let (m, v) = (
            mem.input(ctx, &vec![0.0; n])?,
            mem.input(ctx, &vec![0.0; n])?,
        );
        let (grads, clip) = (mem.output(ctx, n)?, mem.input(ctx, &[CLIP])?);
        let words = mem.input_u32(ctx, &[0; HYPER_LEN])?;
        let (graph, ()) = ctx.record(|| adamw_step(ctx, &params, &grads, &m, &v, &words, &clip))?;
        for step in 1..=STEPS {
            ctx.upload_f32(&grads, &gradient(step, n))?;
            ctx.upload_u32(&words, &hyper(Kind::AdamW, step).to_words())?;
            graph.replay()?;
        }
        Ok(vec![params, m, v])
    });
    assert_eq!(eager, replayed);
}

/// Large, tiny and zero gradients: equal bits everywhere, nothing but finite numbers.
#[test]
fn extreme_gradients_stay_finite() {
    let n = 1000;
    let got = run_everywhere("adamw_step", |ctx, mem| {
        let params = mem.input(ctx, &values(2, n))?;
        let grads = mem.input(ctx, &values(3, n))?;
        let (m, v) = (
            mem.input(ctx, &vec![0.0; n])?,
            mem.input(ctx, &vec![0.0; n])?,
        );
        let hyper = mem.input_u32(ctx, &hyper(Kind::AdamW, 1).to_words())?;
        let clip = mem.input(ctx, &[1.0])?;
        adamw_step(ctx, &params, &grads, &m, &v, &hyper, &clip)?;
        Ok(vec![params, m, v])
    });
    assert!(got.iter().flatten().all(|x| x.is_finite()));
}

#[test]
fn clip_factor_has_torchs_rule() {
    for (norm, max_norm, want) in [
        (0.0, 1.0, 1.0),
        (0.5, 1.0, 1.0),
        (4.0, 1.0, 1.0 / (4.0 + 1e-6)),
        (1e30, 0.1, 1e-31),
        (f32::INFINITY, 1.0, 0.0),
        (3.0, f32::INFINITY, 1.0),
    ] {
        let got = run_everywhere("clip_factor", |ctx, mem| {
            let (norm, out) = (mem.input(ctx, &[norm])?, mem.output(ctx, 1)?);
            clip_factor(ctx, &norm, &out, max_norm)?;
            Ok(vec![out])
        });
        assert_close("clip_factor", &got[0], &[want], 1e-6, 0.0);
    }
    let got = run_everywhere("clip_factor", |ctx, mem| {
        let (norm, out) = (mem.input(ctx, &[f32::NAN])?, mem.output(ctx, 1)?);
        clip_factor(ctx, &norm, &out, 1.0)?;
        Ok(vec![out])
    });
    assert!(got[0][0].is_nan());
}

#[test]
fn powers_are_those_of_the_reference() {
    for (base, exponent) in [(0.9, 1), (0.999, 1000), (0.95, 37), (0.0, 3), (0.5, 0)] {
        let want = f64::powf(base, exponent as f64);
        assert!(
            (power(base, exponent) - want).abs() <= 1e-13 * want,
            "{base}^{exponent}"
        );
    }
}
