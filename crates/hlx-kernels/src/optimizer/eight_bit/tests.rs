//! Tests of moments in 8 bits: the numbers of the law, rounding, steps against f64, and equal bits everywhere.

use super::super::{Hyper, adamw_step};
use super::*;
use crate::testing::{normal, run_everywhere, values};

/// The numbers of a moment in increasing order, by the law in words.
fn numbers(fine: i32) -> Vec<f64> {
    let one = |c: i32| {
        let m = c.ilog2() as i32 - 2;
        let (e, rest) = ((c >> m) - 4, c % (1 << m));
        let fraction = 1.0 + f64::from(rest) / f64::from(1 << m);
        f64::from(2.0_f32).powi(e - 4 - 4 * (fine - m)) * fraction
    };
    (4..=8 << fine).map(one).collect()
}

#[test]
fn codes_are_the_numbers_of_the_law() {
    for (fine, least, n) in [(4, -20, 125), (5, -24, 253)] {
        let numbers = numbers(fine);
        assert_eq!((numbers.len(), numbers[n - 1]), (n, 1.0));
        assert_eq!(numbers[0], 2.0_f64.powi(least));
        for (code, &number) in (1..).zip(&numbers) {
            let found = value_of(code, fine as u32);
            assert_eq!(f64::from(found), number, "{fine} {code}");
            assert_eq!(code_of(found, fine as u32), code);
        }
    }
}

/// Every f32 near the middle of two numbers goes to the nearer one, and the middle away from zero.
#[test]
fn rounding_is_to_the_nearest_number() {
    for fine in [4, 5] {
        let mut numbers = numbers(fine);
        numbers.insert(0, 0.0);
        for (code, pair) in numbers.windows(2).enumerate() {
            let middle = ((pair[0] + pair[1]) / 2.0) as f32;
            assert_eq!(f64::from(middle), (pair[0] + pair[1]) / 2.0);
            let near = [middle.next_down(), middle, middle.next_up()];
            let found = near.map(|r| code_of(r, fine as u32) as usize);
            assert_eq!(found, [code, code + 1, code + 1], "{fine} {middle}");
        }
    }
}

#[test]
fn a_state_has_one_form_and_no_word_is_nan() {
    for is_first in [true, false] {
        for n in [1, 5, 255, 256, 257, 4_099] {
            let mut x = normal(7, n);
            for (i, x) in x.iter_mut().enumerate() {
                *x *= 10.0_f32.powi(-((i % 9) as i32));
                *x = if is_first { *x } else { x.abs() };
            }
            let words = pack(&x, is_first);
            assert_eq!(words.len(), state_words(n, true));
            assert!(words.iter().all(|word| word.is_finite()));
            let mut decoded = vec![f32::NAN; n];
            unpack(&words, is_first, &mut decoded).expect("of its length");
            let again = pack(&decoded, is_first);
            let bits = |words: &[f32]| words.iter().map(|word| word.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&again), bits(&words));
            for (block, decoded) in x.chunks(256).zip(decoded.chunks(256)) {
                let top = block.iter().fold(0.0_f32, |top, x| top.max(x.abs()));
                for (x, found) in block.iter().zip(decoded) {
                    // The least numbers are factors of 2 apart.
                    let tolerance = x.abs() / 2.9;
                    let least = top * if is_first { 1e-6 } else { 6e-8 };
                    assert!(
                        (x - found).abs() <= tolerance.max(least),
                        "{x} {found} of {top}"
                    );
                    assert!(is_first || *x == 0.0 || *found > 0.0);
                }
            }
        }
    }
}

#[test]
fn blocks_that_no_scale_fits_are_zero_or_nan() {
    for is_first in [true, false] {
        let words = pack(&[1e-31, 7e-31, 0.0], is_first);
        assert_eq!(words, [0.0, 0.0]);
        for bad in [f32::INFINITY, f32::NAN] {
            let words = pack(&[1.0, bad, 0.5], is_first);
            assert_eq!(words[0].to_bits(), NAN);
            let mut decoded = [0.0; 3];
            unpack(&words, is_first, &mut decoded).expect("of its length");
            assert!(decoded.iter().all(|x| x.is_nan()));
        }
    }
    assert!(unpack(&[0.0; 3], true, &mut [0.0; 4]).is_err());
}

/// Two packed parameters, the second cut into a part of whole blocks, and one in f32.
fn layout() -> Vec<BlockedParameter> {
    let mut at = (0, 0);
    let lens = [(4_100, true), (33, false), (4_096 + 256 * 3 + 1, true)];
    let place = |(row, (len, is_packed)): (usize, (usize, bool))| {
        let one = BlockedParameter {
            params_at: at.0,
            state_at: at.1,
            len,
            is_packed,
            row: row as u32,
        };
        at.0 += len.next_multiple_of(64);
        at.1 += state_words(len, is_packed).next_multiple_of(64);
        one
    };
    lens.into_iter().enumerate().map(place).collect()
}

fn hyper(step: u64, row: u32) -> Hyper {
    Hyper {
        step,
        learning_rate: 0.01 * f64::from(row + 1),
        weight_decay: 0.1 * f64::from(row),
        clip_value: 1.5,
        ..Hyper::default()
    }
}

fn gradient(step: u64, n: usize) -> Vec<f32> {
    let noise = normal(100 + step, n);
    let scaled = noise.iter().enumerate();
    scaled
        .map(|(i, g)| g * 4.0_f32.powi(-((i % 7) as i32)))
        .collect()
}

const STEPS: u64 = 4;

fn steps(
    window: Option<usize>,
    clip: f32,
    grads: impl Fn(u64, usize) -> Vec<f32>,
) -> Vec<Vec<f32>> {
    let layout = layout();
    let last = layout[2];
    let n = last.params_at + last.len;
    run_everywhere("adamw_8bit_step", |device, mem| {
        let window = window.unwrap_or_else(|| device.max_binding_words());
        let blocks = Blocks::with_window(device, &layout, window)?;
        let params = mem.input(device, &normal(1, n))?;
        let zeros = vec![0.0; blocks.state_len()];
        let (m, v) = (mem.input(device, &zeros)?, mem.input(device, &zeros)?);
        let clip = mem.input(device, &[clip])?;
        for step in 1..=STEPS {
            let grads = mem.input(device, &grads(step, n))?;
            let rows: Vec<u32> = (0..3).flat_map(|row| hyper(step, row).to_words()).collect();
            let rows = mem.input_u32(device, &rows)?;
            let update = Update::new(&params, &grads, &rows, &clip);
            adamw_8bit_step(device, &update, &blocks, &m, &v)?;
        }
        Ok(vec![params, m, v])
    })
}

/// Each step decodes, computes AdamW in f64, and stores the nearest numbers: the same bytes but where a moment is next
/// to the middle of two.
#[test]
fn steps_follow_the_law_in_f64() {
    let got = steps(None, 0.75, gradient);
    let layout = layout();
    let n = got[0].len();
    let mut p: Vec<f64> = normal(1, n).into_iter().map(f64::from).collect();
    let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
    for step in 1..=STEPS {
        let g = gradient(step, n);
        for one in &layout {
            let h = hyper(step, one.row);
            let elements = one.params_at..one.params_at + one.len;
            for i in elements.clone() {
                let g = (0.75 * f64::from(g[i])).clamp(-1.5, 1.5);
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                let corrections = [0.9, 0.999].map(|beta| 1.0 - f64::powi(beta, step as i32));
                let root = v[i].sqrt() / corrections[1].sqrt() + h.epsilon;
                p[i] = p[i] * (1.0 - h.learning_rate * h.weight_decay)
                    - h.learning_rate * m[i] / corrections[0] / root;
            }
            if one.is_packed {
                for (moment, is_first) in [(&mut m, true), (&mut v, false)] {
                    let moment = &mut moment[elements.clone()];
                    let rounded: Vec<f32> = moment.iter().map(|x| *x as f32).collect();
                    let mut decoded = vec![0.0; one.len];
                    unpack(&pack(&rounded, is_first), is_first, &mut decoded).expect("packs");
                    moment
                        .iter_mut()
                        .zip(decoded)
                        .for_each(|(x, y)| *x = f64::from(y));
                }
            }
        }
    }
    let mut apart = 0;
    for one in &layout {
        for i in one.params_at..one.params_at + one.len {
            apart += usize::from((p[i] - f64::from(got[0][i])).abs() > 1e-5);
        }
    }
    assert!(apart * 500 < n, "{apart} of {n} parameters are apart");
}

/// The parameters in f32 have the bits of AdamW, and so have all after the first step, which reads no byte.
#[test]
fn small_parameters_and_first_steps_have_the_bits_of_adamw() {
    let (got, layout) = (steps(None, 0.75, gradient), layout());
    let small = layout[1];
    let window = small.params_at..small.params_at + small.len;
    let want = run_everywhere("adamw_step", |device, mem| {
        let params = mem.input(device, &normal(1, got[0].len())[window.clone()])?;
        let zeros = vec![0.0; small.len];
        let (m, v) = (mem.input(device, &zeros)?, mem.input(device, &zeros)?);
        let clip = mem.input(device, &[0.75])?;
        for step in 1..=STEPS {
            let grads = gradient(step, got[0].len());
            let grads = mem.input(device, &grads[window.clone()])?;
            let rows = mem.input_u32(device, &hyper(step, small.row).to_words())?;
            adamw_step(device, &Update::new(&params, &grads, &rows, &clip), &m, &v)?;
        }
        Ok(vec![params, m, v])
    });
    assert_eq!(got[0][window], want[0]);
    let state = small.state_at..small.state_at + small.len;
    assert_eq!(got[1][state.clone()], want[1]);
    assert_eq!(got[2][state], want[2]);
}

#[test]
fn windows_change_no_bit() {
    let bits = |all: Vec<Vec<f32>>| -> Vec<Vec<u32>> {
        let words = |one: Vec<f32>| one.into_iter().map(f32::to_bits).collect();
        all.into_iter().map(words).collect()
    };
    let whole = bits(steps(None, 0.75, gradient));
    for window in [512, 1_500] {
        assert_eq!(bits(steps(Some(window), 0.75, gradient)), whole, "{window}");
    }
}

/// Large, tiny, zero and negative zero gradients; and a step that is skipped.
#[test]
fn extreme_gradients_have_equal_bits_and_a_skipped_step_writes_nothing() {
    let got = steps(None, 1.0, values);
    assert!(got[0].iter().all(|x| x.is_finite()));
    let skipped = steps(None, -1.0, |_, n| vec![f32::NAN; n]);
    assert_eq!(skipped[0], normal(1, got[0].len()));
    assert!(skipped[1..].iter().flatten().all(|x| x.to_bits() == 0));
    let nan = steps(None, 1.0, |_, n| vec![f32::NAN; n]);
    let layout = layout();
    for one in layout {
        let mut elements = one.params_at..one.params_at + one.len;
        assert!(elements.all(|i| nan[0][i].is_nan()));
    }
}

#[test]
fn buffers_and_places_that_do_not_fit_are_refused() {
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let zeros = |n: usize| device.buffer_of::<u32>(&vec![0; n]).expect("memory");
    let blocks = Blocks::new(&device, &layout()).expect("fits");
    let (n, state) = (blocks.params, blocks.state_len());
    let message = |sizes: [usize; 5]| {
        let [params, grads, hyper, mean, square] = sizes.map(zeros);
        let clip = zeros(1);
        let update = Update::new(&params, &grads, &hyper, &clip);
        let error = adamw_8bit_step(&device, &update, &blocks, &mean, &square);
        error.expect_err("refused").to_string()
    };
    assert_eq!(
        message([n, n, 15, state, state]),
        "adamw_8bit_step: hyper has 15 words, expected rows of 16"
    );
    assert_eq!(
        message([n, n - 1, 16, state, state]),
        format!(
            "adamw_8bit_step: grads has {} elements, expected at least {n}",
            n - 1
        )
    );
    assert_eq!(
        message([n, n, 16, state, 3]),
        format!("adamw_8bit_step: square has 3 elements, expected at least {state}")
    );
    let mut crossed = layout();
    crossed[1].params_at = 64;
    let error = Blocks::new(&device, &crossed).expect_err("refused");
    let expected = "adamw_8bit_step: the parameter at element 64 does not follow the one before it";
    assert_eq!(error.to_string(), expected);
}
