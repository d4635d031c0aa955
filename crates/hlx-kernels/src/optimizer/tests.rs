//! Tests of the optimizers: torch.optim's formulas in f64, groups, windows, and a recorded step.

use super::*;
use crate::testing::{
    TestMemory, assert_close, normal, own_devices, run_everywhere, run_on_each, values,
};

const STEPS: u64 = 5;
const CLIP: f32 = 0.75;
/// Below some of the clipped gradients' magnitudes.
const LIMIT: f64 = 1.25;
const SIZES: [usize; 5] = [1, 31, 33, 1009, 5000];

/// The variants of the steps; the flags are momentum, Nesterov and centered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sgd,
    SgdMomentum { nesterov: bool },
    Adam,
    AdamW,
    Adagrad,
    RmsProp { momentum: bool, centered: bool },
    Lion,
}

const RMSPROP: [Kind; 4] = [
    Kind::RmsProp {
        momentum: false,
        centered: false,
    },
    Kind::RmsProp {
        momentum: true,
        centered: false,
    },
    Kind::RmsProp {
        momentum: false,
        centered: true,
    },
    Kind::RmsProp {
        momentum: true,
        centered: true,
    },
];

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![
        Kind::Sgd,
        Kind::SgdMomentum { nesterov: false },
        Kind::SgdMomentum { nesterov: true },
        Kind::Adam,
        Kind::AdamW,
        Kind::Adagrad,
        Kind::Lion,
    ];
    kinds.extend(RMSPROP);
    kinds
}

fn hyper(kind: Kind, step: u64) -> Hyper {
    let with_momentum = matches!(
        kind,
        Kind::SgdMomentum { .. } | Kind::RmsProp { momentum: true, .. }
    );
    Hyper {
        step,
        // A rate that moves, as a schedule does.
        learning_rate: 0.01 / step as f64,
        momentum: if with_momentum { 0.9 } else { 0.0 },
        dampening: if kind == (Kind::SgdMomentum { nesterov: false }) {
            0.3
        } else {
            0.0
        },
        weight_decay: 0.1,
        clip_value: LIMIT,
        ..Hyper::default()
    }
}

fn gradient(step: u64, n: usize) -> Vec<f32> {
    // Twice as large, so that some are clipped by their value.
    normal(100 + step, n).iter().map(|g| 2.0 * g).collect()
}

/// An element and its state in f64.
#[derive(Clone, Copy, Default)]
struct Element {
    p: f64,
    a: f64,
    b: f64,
    c: f64,
}

/// The published update of one element in f64.
fn reference(kind: Kind, e: &mut Element, g: f64, h: Hyper) {
    let mut g = (f64::from(CLIP) * g).clamp(-h.clip_value, h.clip_value);
    if matches!(kind, Kind::AdamW | Kind::Lion) {
        e.p *= 1.0 - h.learning_rate * h.weight_decay;
    } else {
        g += h.weight_decay * e.p;
    }
    let d = match kind {
        Kind::Sgd => g,
        Kind::SgdMomentum { nesterov } => {
            let fresh = if h.step > 1 { 1.0 - h.dampening } else { 1.0 };
            e.a = h.momentum * e.a + fresh * g;
            if nesterov { g + h.momentum * e.a } else { e.a }
        }
        Kind::Adam | Kind::AdamW => {
            e.a = h.beta1 * e.a + (1.0 - h.beta1) * g;
            e.b = h.beta2 * e.b + (1.0 - h.beta2) * g * g;
            let correction1 = 1.0 - h.beta1.powf(h.step as f64);
            let correction2 = 1.0 - h.beta2.powf(h.step as f64);
            e.a / correction1 / (e.b.sqrt() / correction2.sqrt() + h.epsilon)
        }
        Kind::Adagrad => {
            e.a += g * g;
            g / (e.a.sqrt() + h.epsilon)
        }
        Kind::RmsProp { momentum, centered } => {
            e.a = h.beta2 * e.a + (1.0 - h.beta2) * g * g;
            e.c = h.beta2 * e.c + (1.0 - h.beta2) * g;
            let spread = if centered { e.a - e.c * e.c } else { e.a };
            let d = g / (spread.sqrt() + h.epsilon);
            e.b = h.momentum * e.b + d;
            if momentum { e.b } else { d }
        }
        Kind::Lion => {
            let u = h.beta1 * e.a + (1.0 - h.beta1) * g;
            e.a = h.beta2 * e.a + (1.0 - h.beta2) * g;
            u.signum()
        }
    };
    e.p -= h.learning_rate * d;
}

/// Launches a step over parameters and three buffers of state, of which it takes what it needs.
fn launch(device: &Device, kind: Kind, update: &Update<'_>, [a, b, c]: [&Buffer; 3]) -> Result<()> {
    match kind {
        Kind::Sgd => sgd_step(device, update),
        Kind::SgdMomentum { nesterov } => sgd_momentum_step(device, update, a, nesterov),
        Kind::Adam => adam_step(device, update, a, b),
        Kind::AdamW => adamw_step(device, update, a, b),
        Kind::Adagrad => adagrad_step(device, update, a),
        Kind::RmsProp { momentum, centered } => rmsprop_step(
            device,
            update,
            a,
            momentum.then_some(b),
            centered.then_some(c),
        ),
        Kind::Lion => lion_step(device, update, a),
    }
}

/// Zeros for the state.
fn state(device: &Device, mem: &mut TestMemory, n: usize) -> Result<[Buffer; 3]> {
    let zeros = vec![0.0; n];
    Ok([
        mem.input(device, &zeros)?,
        mem.input(device, &zeros)?,
        mem.input(device, &zeros)?,
    ])
}

fn five_steps(kind: Kind, initial: &[f32]) -> Vec<Vec<f32>> {
    let n = initial.len();
    run_everywhere(&format!("{kind:?}"), |device, mem| {
        let params = mem.input(device, initial)?;
        let [a, b, c] = state(device, mem, n)?;
        let clip = mem.input(device, &[CLIP])?;
        for step in 1..=STEPS {
            let grads = mem.input(device, &gradient(step, n))?;
            let hyper = mem.input_u32(device, &hyper(kind, step).to_words())?;
            let update = Update::new(&params, &grads, &hyper, &clip);
            launch(device, kind, &update, [&a, &b, &c])?;
        }
        Ok(vec![params, a, b, c])
    })
}

#[test]
fn five_steps_follow_torch_in_f64() {
    for kind in kinds() {
        for n in SIZES {
            let initial = normal(1, n);
            let got = five_steps(kind, &initial);
            let start = |p: &f32| Element {
                p: f64::from(*p),
                ..Element::default()
            };
            let mut elements: Vec<Element> = initial.iter().map(start).collect();
            for step in 1..=STEPS {
                for (e, g) in elements.iter_mut().zip(gradient(step, n)) {
                    reference(kind, e, f64::from(g), hyper(kind, step));
                }
            }
            let of = |part: fn(&Element) -> f64| elements.iter().map(part).collect::<Vec<f64>>();
            assert_close(&format!("{kind:?}"), &got[0], &of(|e| e.p), 4e-6, 2e-6);
            if kind != Kind::Sgd {
                assert_close(
                    &format!("{kind:?} first state"),
                    &got[1],
                    &of(|e| e.a),
                    1e-5,
                    1e-6,
                );
            }
            if matches!(
                kind,
                Kind::Adam | Kind::AdamW | Kind::RmsProp { momentum: true, .. }
            ) {
                assert_close(
                    &format!("{kind:?} second state"),
                    &got[2],
                    &of(|e| e.b),
                    1e-4,
                    1e-6,
                );
            }
            if matches!(kind, Kind::RmsProp { centered: true, .. }) {
                assert_close(&format!("{kind:?} mean"), &got[3], &of(|e| e.c), 1e-5, 1e-6);
            }
        }
    }
}

/// Blocks of several groups in one launch have the bits of a launch a group, and those that are
/// skipped keep what they have.
#[test]
fn groups_have_the_numbers_of_their_rows() {
    const N: usize = 3 * 64 * 400 + 37; // More than one piece of the CPU device, and a tail.
    let n_blocks = N.div_ceil(64);
    let group_of: Vec<u32> = (0..n_blocks as u32)
        .map(|block| match block % 11 {
            0..=3 => 0,
            4 | 9 => SKIPPED,
            5..=7 => 1,
            _ => 2,
        })
        .collect();
    let numbers = |kind, group: u32| Hyper {
        learning_rate: 0.01 * f64::from(group + 1),
        weight_decay: 0.2 * f64::from(group),
        ..hyper(kind, 2)
    };
    let initial = normal(1, N);
    for kind in [Kind::AdamW, Kind::Sgd, RMSPROP[3]] {
        let run = |groups: Option<Vec<u32>>, group: u32| {
            run_everywhere("groups", |device, mem| {
                let params = mem.input(device, &initial)?;
                let [a, b, c] = state(device, mem, N)?;
                let (grads, clip) = (
                    mem.input(device, &gradient(2, N))?,
                    mem.input(device, &[CLIP])?,
                );
                let rows: Vec<u32> = (0..3).flat_map(|g| numbers(kind, g).to_words()).collect();
                let hyper = mem.input_u32(device, &rows)?;
                let table = groups
                    .as_ref()
                    .map(|words| mem.input_u32(device, words))
                    .transpose()?;
                let update = Update {
                    groups: table.as_ref().map_or(Groups::One(group), Groups::ByBlock),
                    ..Update::new(&params, &grads, &hyper, &clip)
                };
                launch(device, kind, &update, [&a, &b, &c])?;
                Ok(vec![params, a, b, c])
            })
        };
        let together = run(Some(group_of.clone()), 0);
        let apart: Vec<_> = (0..3).map(|group| run(None, group)).collect();
        for (output, words) in together.iter().enumerate() {
            for (i, word) in words.iter().enumerate() {
                let expected = match group_of[i / 64] {
                    SKIPPED if output == 0 => initial[i],
                    SKIPPED => 0.0,
                    group => apart[group as usize][output][i],
                };
                assert_eq!(
                    word.to_bits(),
                    expected.to_bits(),
                    "{kind:?} {output} at {i}"
                );
            }
        }
    }
}

#[test]
fn a_table_or_numbers_that_do_not_fit_are_refused() {
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let message = |n_hyper: usize, groups: Option<usize>, row: u32| {
        let words = |n: usize| device.buffer_of::<u32>(&vec![0; n]);
        let made = [words(130), words(130), words(n_hyper), words(1)].map(|b| b.expect("memory"));
        let [params, grads, hyper, clip] = &made;
        let table = groups.map(|n| words(n).expect("memory"));
        let update = Update {
            groups: table.as_ref().map_or(Groups::One(row), Groups::ByBlock),
            ..Update::new(params, grads, hyper, clip)
        };
        sgd_step(&device, &update).expect_err("refused").to_string()
    };
    let expected = "sgd_step: hyper has 10 words, expected rows of 16 up to row 0";
    assert_eq!(message(10, None, 0), expected);
    let expected = "sgd_step: hyper has 16 words, expected rows of 16 up to row 1";
    assert_eq!(message(16, None, 1), expected);
    let expected = "sgd_step: groups has 2 elements, expected 3";
    assert_eq!(message(16, Some(2), 0), expected);
}

/// A step recorded once and replayed with the next step's numbers is the step itself.
#[test]
fn a_recorded_step_follows_its_hyper_buffer() {
    let (initial, n) = (normal(4, 333), 333);
    let eager = five_steps(Kind::AdamW, &initial);
    let replayed = run_on_each("adamw_step", &own_devices(), |device, mem| {
        let params = mem.input(device, &initial)?;
        let [m, v, unused] = state(device, mem, n)?;
        let (grads, clip) = (mem.output(device, n)?, mem.input(device, &[CLIP])?);
        let words = mem.input_u32(device, &[0; HYPER_LEN])?;
        let update = Update::new(&params, &grads, &words, &clip);
        let (graph, ()) = device.record(|| adamw_step(device, &update, &m, &v))?;
        for step in 1..=STEPS {
            device.upload(&grads, &gradient(step, n))?;
            device.upload_words(&words, &hyper(Kind::AdamW, step).to_words())?;
            graph.replay()?;
        }
        Ok(vec![params, m, v, unused])
    });
    assert_eq!(eager, replayed);
}

/// Large, tiny and zero gradients: equal bits everywhere, and nothing but finite numbers where the
/// squares are.
#[test]
fn extreme_gradients_stay_finite() {
    let n = 1000;
    for kind in kinds() {
        let got = run_everywhere(&format!("{kind:?}"), |device, mem| {
            let params = mem.input(device, &values(2, n))?;
            let grads = mem.input(device, &values(3, n))?;
            let [a, b, c] = state(device, mem, n)?;
            let hyper = mem.input_u32(device, &hyper(kind, 1).to_words())?;
            let clip = mem.input(device, &[1.0])?;
            let update = Update::new(&params, &grads, &hyper, &clip);
            launch(device, kind, &update, [&a, &b, &c])?;
            Ok(vec![params, a, b, c])
        });
        assert!(got[0].iter().all(|x| x.is_finite()), "{kind:?}");
    }
}

/// A gradient that is not a number shows, whatever clips it.
#[test]
fn a_gradient_of_nan_reaches_the_parameter() {
    for kind in kinds() {
        let got = run_everywhere(&format!("{kind:?}"), |device, mem| {
            let params = mem.input(device, &[1.0])?;
            let grads = mem.input(device, &[f32::NAN])?;
            let [a, b, c] = state(device, mem, 1)?;
            let hyper = mem.input_u32(device, &hyper(kind, 1).to_words())?;
            let clip = mem.input(device, &[1.0])?;
            let update = Update::new(&params, &grads, &hyper, &clip);
            launch(device, kind, &update, [&a, &b, &c])?;
            Ok(vec![params, a, b, c])
        });
        assert!(got[0][0].is_nan(), "{kind:?}");
    }
}

/// A negative factor: parameters and state stay, whatever the gradient holds.
#[test]
fn a_skipped_step_writes_nothing() {
    let n = 1009;
    let (initial, before) = (normal(1, n), normal(2, n));
    for kind in kinds() {
        let got = run_everywhere(&format!("{kind:?}"), |device, mem| {
            let params = mem.input(device, &initial)?;
            let state = [0, 1, 2].map(|_| mem.input(device, &before));
            let [a, b, c] = state;
            let (a, b, c) = (a?, b?, c?);
            let grads = mem.input(device, &vec![f32::NAN; n])?;
            let hyper = mem.input_u32(device, &hyper(kind, 1).to_words())?;
            let clip = mem.input(device, &[-1.0])?;
            let update = Update::new(&params, &grads, &hyper, &clip);
            launch(device, kind, &update, [&a, &b, &c])?;
            Ok(vec![params, a, b, c])
        });
        assert_eq!(got[0], initial, "{kind:?}");
        assert!(got[1..].iter().all(|state| *state == before), "{kind:?}");
    }
}

#[test]
fn an_average_follows_its_parameters() {
    let n = 333;
    let decay = 0.9;
    let first = Hyper {
        beta1: 0.0,
        ..Hyper::default()
    };
    let later = Hyper {
        beta1: decay,
        ..Hyper::default()
    };
    let got = run_everywhere("average_step", |device, mem| {
        let average = mem.input(device, &vec![0.0; n])?;
        let clip = mem.input(device, &[1.0])?;
        for step in 1..=STEPS {
            let params = mem.input(device, &gradient(step, n))?;
            let numbers = if step == 1 { first } else { later };
            let hyper = mem.input_u32(device, &numbers.to_words())?;
            average_step(device, &Update::new(&average, &params, &hyper, &clip))?;
        }
        Ok(vec![average])
    });
    let mut want: Vec<f64> = gradient(1, n).iter().map(|&p| f64::from(p)).collect();
    for step in 2..=STEPS {
        for (e, p) in want.iter_mut().zip(gradient(step, n)) {
            *e = decay * *e + (1.0 - decay) * f64::from(p);
        }
    }
    assert_close("average_step", &got[0], &want, 1e-6, 1e-6);
}

#[test]
fn a_guarded_factor_is_minus_one_where_anything_is_not_finite() {
    let factor = |norm: f32, losses: &[f32], max_norm: f32| {
        // Runs of one loss, a word of another kind between them.
        let words: Vec<f32> = losses.iter().flat_map(|&loss| [loss, f32::NAN]).collect();
        let got = run_everywhere("guarded_factor", |device, mem| {
            let (norm, out) = (mem.input(device, &[norm])?, mem.output(device, 1)?);
            let watched = Watched {
                words: mem.input(device, &words)?,
                runs: losses.len(),
                run: 1,
                stride: 2,
            };
            guarded_factor(device, &norm, &watched, &out, max_norm)?;
            Ok(vec![out])
        });
        got[0][0]
    };
    let fine = [1.0, 2.0, f32::MAX];
    assert_eq!(factor(0.5, &fine, 1.0), 1.0);
    assert_eq!(factor(3.0, &fine, f32::INFINITY), 1.0);
    assert!((factor(4.0, &fine, 1.0) - 0.25).abs() < 1e-6);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(factor(bad, &fine, 1.0), -1.0);
        assert_eq!(factor(bad, &fine, f32::INFINITY), -1.0);
        assert_eq!(factor(0.5, &[1.0, 2.0, bad], 1.0), -1.0);
    }
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
        let got = run_everywhere("clip_factor", |device, mem| {
            let (norm, out) = (mem.input(device, &[norm])?, mem.output(device, 1)?);
            clip_factor(device, &norm, &out, max_norm)?;
            Ok(vec![out])
        });
        assert_close("clip_factor", &got[0], &[want], 1e-6, 0.0);
    }
    let got = run_everywhere("clip_factor", |device, mem| {
        let (norm, out) = (mem.input(device, &[f32::NAN])?, mem.output(device, 1)?);
        clip_factor(device, &norm, &out, 1.0)?;
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
