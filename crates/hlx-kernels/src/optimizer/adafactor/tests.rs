//! Tests of Adafactor: the published formula in f64, and equal bits everywhere.

use super::super::Hyper;
use super::*;
use crate::testing::{TestMemory, assert_close, normal, run_everywhere};

const NUMBERS: Adafactor = Adafactor {
    epsilon: f32::EPSILON,
    least_scale: 1e-3,
    threshold: 1.0,
};
const STEPS: u64 = 4;
const CLIP: f32 = 0.75;
const DECAY: f64 = 0.1;
const RATE: f64 = 0.4;
/// Matrices of uneven sides, several of them, one row, one column; and vectors.
const SHAPES: [&[usize]; 7] = [
    &[9, 130],
    &[3, 17, 33],
    &[1, 300],
    &[300, 1],
    &[70, 90],
    &[1],
    &[5000],
];

fn hyper(step: u64) -> Hyper {
    let (t, w) = (step as f64, (step as f64).powf(-0.8));
    Hyper {
        step,
        learning_rate: RATE,
        step_factor: RATE.min(1.0 / t.sqrt()) / RATE,
        weight_decay: DECAY,
        beta1: 0.0,
        beta2: 1.0 - w,
        clip_value: 1.5,
        ..Hyper::default()
    }
}

fn gradient(step: u64, n: usize) -> Vec<f32> {
    normal(200 + step, n)
}

/// B, R and C of a shape of two or more dimensions.
fn factored(shape: &[usize]) -> Option<[usize; 3]> {
    let (&cols, rest) = shape.split_last()?;
    let (&rows, batches) = rest.split_last()?;
    Some([batches.iter().product(), rows, cols])
}

fn launch(
    device: &Device,
    mem: &mut TestMemory,
    shape: &[usize],
    clip: f32,
    grads: &dyn Fn(u64, usize) -> Vec<f32>,
) -> Result<Vec<Buffer>> {
    let n = shape.iter().product();
    let params = mem.input(device, &normal(1, n))?;
    let lens = factored(shape).map_or([n, 1], |[b, r, c]| [b * r, b * c]);
    let first = mem.input(device, &vec![0.0; lens[0]])?;
    let second = mem.input(device, &vec![0.0; lens[1]])?;
    let clip = mem.input(device, &[clip])?;
    for step in 1..=STEPS {
        let grads = mem.input(device, &grads(step, n))?;
        let hyper = mem.input_u32(device, &hyper(step).to_words())?;
        let update = Update::new(&params, &grads, &hyper, &clip);
        let squares = match factored(shape) {
            Some(shape) => Squares::Factored {
                shape,
                row: &first,
                col: &second,
            },
            None => Squares::Whole(&first),
        };
        adafactor_step(device, &update, squares, &NUMBERS)?;
    }
    Ok(vec![params, first, second])
}

#[test]
fn steps_follow_torch_in_f64() {
    for shape in SHAPES {
        let got = run_everywhere("adafactor_step", |device, mem| {
            launch(device, mem, shape, CLIP, &gradient)
        });
        let n: usize = shape.iter().product();
        let mut p: Vec<f64> = normal(1, n).into_iter().map(f64::from).collect();
        let (mut first, mut second) = (vec![0.0; got[1].len()], vec![0.0; got[2].len()]);
        for step in 1..=STEPS {
            let h = hyper(step);
            let w = 1.0 - h.beta2;
            let g: Vec<f64> = gradient(step, n)
                .into_iter()
                .map(|g| (f64::from(CLIP) * f64::from(g)).clamp(-1.5, 1.5))
                .collect();
            let eps = f64::from(f32::EPSILON);
            let v: Vec<f64> = match factored(shape) {
                None => {
                    for (v, g) in first.iter_mut().zip(&g) {
                        *v += w * (g * g - *v);
                    }
                    first.clone()
                }
                Some([batches, rows, cols]) => {
                    let at = |b: usize, r: usize, c: usize| g[(b * rows + r) * cols + c].powi(2);
                    let mut v = Vec::new();
                    for b in 0..batches {
                        for r in 0..rows {
                            let mean = (0..cols).map(|c| at(b, r, c)).sum::<f64>() / cols as f64;
                            first[b * rows + r] += w * (mean - first[b * rows + r]);
                        }
                        for c in 0..cols {
                            let mean = (0..rows).map(|r| at(b, r, c)).sum::<f64>() / rows as f64;
                            second[b * cols + c] += w * (mean - second[b * cols + c]);
                        }
                        let row = &first[b * rows..][..rows];
                        let mean = (row.iter().sum::<f64>() / rows as f64).max(eps);
                        let col = &second[b * cols..][..cols];
                        v.extend(
                            row.iter()
                                .flat_map(|r| col.iter().map(move |c| r * c / mean)),
                        );
                    }
                    v
                }
            };
            let u: Vec<f64> = g
                .iter()
                .zip(v)
                .map(|(g, v)| g / v.sqrt().max(eps))
                .collect();
            let rms = |x: &[f64]| (x.iter().map(|x| x * x).sum::<f64>() / n as f64).sqrt();
            let rho = RATE.min(1.0 / (step as f64).sqrt());
            let factor = rho * rms(&p).max(1e-3) / rms(&u).max(1.0);
            for (p, u) in p.iter_mut().zip(u) {
                *p = (1.0 - RATE * DECAY) * *p - factor * u;
            }
        }
        let name = format!("{shape:?}");
        assert_close(&name, &got[0], &p, 1e-5, 4e-6);
        assert_close(&name, &got[1], &first, 1e-5, 1e-6);
        if factored(shape).is_some() {
            assert_close(&name, &got[2], &second, 1e-5, 1e-6);
        }
    }
}

#[test]
fn a_skipped_step_writes_nothing_and_nan_shows() {
    for shape in [SHAPES[0], SHAPES[6]] {
        let run = |clip: f32| {
            run_everywhere("adafactor_step", |device, mem| {
                launch(device, mem, shape, clip, &|_, n| vec![f32::NAN; n])
            })
        };
        let skipped = run(-1.0);
        assert_eq!(skipped[0], normal(1, skipped[0].len()));
        assert!(skipped[1..].iter().flatten().all(|x| x.to_bits() == 0));
        assert!(run(1.0)[0].iter().all(|x| x.is_nan()));
    }
}

/// Gradients of zero leave a parameter where it is, except for its weight decay.
#[test]
fn gradients_of_zero_move_nothing() {
    for shape in [SHAPES[1], SHAPES[6]] {
        let got = run_everywhere("adafactor_step", |device, mem| {
            launch(device, mem, shape, 1.0, &|_, n| vec![0.0; n])
        });
        let initial = normal(1, got[0].len());
        let kept = (1.0 - RATE * DECAY).powi(STEPS as i32);
        let want: Vec<f64> = initial.iter().map(|p| f64::from(*p) * kept).collect();
        assert_close("zeros", &got[0], &want, 1e-6, 0.0);
    }
}
