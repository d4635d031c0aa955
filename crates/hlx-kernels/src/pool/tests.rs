//! Pooling: bits of all devices are those of loops that scatter, extents are PyTorch's.

use hlx_core::arith::pos0;
use hlx_core::cpu::with_flush;
use hlx_core::digest::canonical_bits;

use super::*;
use crate::testing::{elements_of, run_everywhere, values};

fn spec(
    planes: usize,
    [input, kernel, stride, padding, dilation]: [[usize; 2]; 5],
    ceil_mode: bool,
) -> Pool2d {
    Pool2d {
        planes,
        windows: Windows {
            input,
            kernel,
            stride,
            padding,
            dilation,
        },
        ceil_mode,
    }
}

/// Shapes with a dilation of 1, and one whose windows have holes.
fn specs() -> Vec<Pool2d> {
    const ONE: [usize; 2] = [1, 1];
    vec![
        spec(3, [[6, 8], [2, 2], [2, 2], [0, 0], ONE], false),
        spec(2, [[7, 5], [3, 2], [1, 2], [1, 1], ONE], false),
        spec(2, [[7, 9], [3, 4], [3, 3], [1, 2], ONE], true),
        // Rows and columns between windows that none sees.
        spec(1, [[11, 8], [2, 1], [4, 3], [0, 0], ONE], true),
        // One dimension.
        spec(5, [[1, 33], [1, 5], [1, 2], [0, 2], ONE], false),
        spec(2, [[9, 10], [3, 2], [2, 1], [1, 1], [2, 5]], true),
    ]
}

/// The places along an axis that an output sees, by the definition.
fn seen(s: &Pool2d, axis: usize, o: usize) -> Vec<usize> {
    let taps = 0..s.windows.kernel[axis];
    let places = taps.map(|t| {
        (o * s.windows.stride[axis] + t * s.windows.dilation[axis])
            .wrapping_sub(s.windows.padding[axis])
    });
    places
        .filter(|&place| place < s.windows.input[axis])
        .collect()
}

/// Calls `visit(output, divisor parts, the places in x)` for every window, in row-major order.
fn each_window(
    planes: usize,
    input: [usize; 2],
    windows: [Vec<Vec<usize>>; 2],
    mut visit: impl FnMut(usize, [usize; 2], &[usize]),
) {
    let mut at = 0;
    for plane in 0..planes {
        for (oy, rows) in windows[0].iter().enumerate() {
            for (ox, columns) in windows[1].iter().enumerate() {
                let row = |y: &usize| (plane * input[0] + y) * input[1];
                let places = rows
                    .iter()
                    .flat_map(|y| columns.iter().map(move |x| row(y) + x));
                visit(at, [oy, ox], &places.collect::<Vec<_>>());
                at += 1;
            }
        }
    }
}

fn windows_of(s: &Pool2d) -> [Vec<Vec<usize>>; 2] {
    let output = s.output().expect("a shape that can be");
    [0, 1].map(|axis| (0..output[axis]).map(|o| seen(s, axis, o)).collect())
}

fn assert_same_bits(name: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{name}: length");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let equal = canonical_bits(*got) == canonical_bits(*want);
        assert!(equal, "{name}: element {at}: {got:e}, expected {want:e}");
    }
}

/// Ordinary values, equal ones, zeros of both signs, NaN and infinities.
fn special(seed: u64, len: usize) -> Vec<f32> {
    let mut data = values(seed, len);
    for (i, x) in data.iter_mut().enumerate() {
        match (i * 7 + i / 5) % 23 {
            0 | 1 => *x = 2.5,
            2 => *x = f32::NAN,
            3 => *x = f32::NEG_INFINITY,
            4 => *x = f32::INFINITY,
            _ if x.is_subnormal() => *x = 0.0,
            _ => {}
        }
    }
    data
}

#[test]
fn maxima_and_their_gradients_follow_the_definition() {
    for s in specs() {
        let [h, w] = s.windows.input;
        let windows = windows_of(&s);
        let n_outputs = s.planes * windows[0].len() * windows[1].len();
        let x = special(1, s.planes * h * w);
        let dy = values(2, n_outputs);
        let (mut y, mut indices) = (
            vec![f32::NEG_INFINITY; n_outputs],
            vec![u32::MAX; n_outputs],
        );
        let mut dx = vec![0.0; x.len()];
        with_flush(|| {
            each_window(s.planes, s.windows.input, windows, |at, _, places| {
                let mut best = None;
                for &place in places {
                    let better = best.is_none_or(|best: usize| x[place] > x[best]);
                    if better || x[place].is_nan() {
                        best = Some(place);
                    }
                }
                if let Some(best) = best {
                    (y[at], indices[at]) = (x[best], (best % (h * w)) as u32);
                    dx[best] += dy[at];
                }
            });
        });
        dx.iter_mut().for_each(|dx| *dx = pos0(*dx));
        let got = run_everywhere(&format!("max_pool2d {s:?}"), |device, mem| {
            let (x, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
            let (y, dx) = (mem.output(device, n_outputs)?, mem.output(device, x.len())?);
            let indices = mem.output_of(device, DType::U32, n_outputs)?;
            max_pool2d_forward(device, &x, &y, &indices, &s)?;
            max_pool2d_backward(device, &dy, &indices, &dx, &s)?;
            Ok(vec![y, indices, dx])
        });
        assert_same_bits("y", &got[0], &y);
        assert_eq!(elements_of::<u32>(&got[1], n_outputs), indices, "{s:?}");
        assert_same_bits("dx", &got[2], &dx);
    }
}

#[test]
fn averages_and_their_gradients_follow_the_definition() {
    let divisors = [
        AvgDivisor::Padded,
        AvgDivisor::Inside,
        AvgDivisor::Fixed(-3),
    ];
    for (i, s) in specs()
        .into_iter()
        .filter(|s| s.windows.dilation == [1, 1])
        .enumerate()
    {
        let divisor = divisors[i % 3];
        // A window's extent with the padding, as PyTorch counts it.
        let padded = |axis: usize, o: usize| {
            let begin = o * s.windows.stride[axis];
            (begin + s.windows.kernel[axis])
                .min(s.windows.input[axis] + 2 * s.windows.padding[axis])
                - begin
        };
        let value = |[oy, ox]: [usize; 2], inside: usize| match divisor {
            AvgDivisor::Padded => (padded(0, oy) * padded(1, ox)) as f32,
            AvgDivisor::Inside => inside as f32,
            AvgDivisor::Fixed(value) => value as f32,
        };
        let windows = windows_of(&s);
        check_averages(
            s.planes,
            s.windows.input,
            windows,
            value,
            |device, [x, y, dy, dx]| {
                avg_pool2d_forward(device, x, y, &AvgPool2d::Windows(s, divisor))?;
                avg_pool2d_backward(device, dy, dx, &AvgPool2d::Windows(s, divisor))
            },
        );
    }
}

#[test]
fn adaptive_averages_and_their_gradients_follow_the_definition() {
    for (input, output) in [
        ([7, 7], [1, 1]),
        ([5, 8], [3, 2]),
        ([3, 4], [7, 4]),
        ([1, 13], [1, 5]),
    ] {
        // Output o has the elements that overlap the o-th of `output` equal parts.
        let windows = [0, 1].map(|axis| {
            let (inputs, outputs): (usize, usize) = (input[axis], output[axis]);
            let part = |o: usize| {
                let overlaps =
                    |i: &usize| (i + 1) * outputs > o * inputs && i * outputs < (o + 1) * inputs;
                (0..inputs).filter(overlaps).collect()
            };
            (0..outputs).map(part).collect()
        });
        let value = |_: [usize; 2], inside: usize| inside as f32;
        check_averages(3, input, windows, value, |device, [x, y, dy, dx]| {
            let spec = AvgPool2d::Adaptive {
                planes: 3,
                input,
                output,
            };
            avg_pool2d_forward(device, x, y, &spec)?;
            avg_pool2d_backward(device, dy, dx, &spec)
        });
    }
}

/// Compares averages over windows on every device with the loops that define them.
fn check_averages(
    planes: usize,
    input: [usize; 2],
    windows: [Vec<Vec<usize>>; 2],
    divisor: impl Fn([usize; 2], usize) -> f32,
    run: impl Fn(&Device, [&Buffer; 4]) -> Result<()>,
) {
    let n_outputs = planes * windows[0].len() * windows[1].len();
    let n_inputs = planes * input[0] * input[1];
    let (x, dy) = (values(1, n_inputs), values(2, n_outputs));
    let (mut y, mut dx) = (vec![0.0; n_outputs], vec![0.0; n_inputs]);
    with_flush(|| {
        each_window(planes, input, windows, |at, window, places| {
            let divisor = divisor(window, places.len());
            let sum = places.iter().fold(0.0, |sum, &place| sum + x[place]);
            y[at] = pos0(sum) / divisor;
            for &place in places {
                dx[place] += dy[at] / divisor;
            }
        });
        dx.iter_mut().for_each(|dx: &mut f32| *dx = pos0(*dx));
    });
    let got = run_everywhere("averages", |device, mem| {
        let (x, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
        let (y, dx) = (
            mem.output(device, n_outputs)?,
            mem.output(device, n_inputs)?,
        );
        run(device, [&x, &y, &dy, &dx])?;
        Ok(vec![y, dx])
    });
    assert_same_bits("y", &got[0], &y);
    assert_same_bits("dx", &got[1], &dx);
}

#[test]
fn extents_are_those_of_pytorch() {
    let output = |input, kernel, stride, padding, ceil_mode| {
        let pairs = [input, kernel, stride, padding, 1].map(|x| [x, x]);
        spec(1, pairs, ceil_mode).output().expect("a shape")[0]
    };
    assert_eq!(output(5, 2, 2, 0, false), 2);
    assert_eq!(output(5, 2, 2, 0, true), 3);
    // The third window would begin in the padding behind the plane.
    assert_eq!(output(4, 2, 3, 1, true), 2);
    assert_eq!(output(112, 3, 2, 1, false), 56);
}

#[test]
fn no_planes_have_no_results() {
    let s = spec(0, [[4, 4], [2, 2], [2, 2], [0, 0], [1, 1]], false);
    for device in crate::testing::devices() {
        let none = device.alloc(0).expect("an empty buffer");
        let indices = device.alloc_typed(DType::U32, 0).expect("an empty buffer");
        max_pool2d_forward(device, &none, &none, &indices, &s).expect("nothing to do");
        max_pool2d_backward(device, &none, &indices, &none, &s).expect("nothing to do");
        avg_pool2d_forward(
            device,
            &none,
            &none,
            &AvgPool2d::Windows(s, AvgDivisor::Padded),
        )
        .expect("nothing to do");
        avg_pool2d_backward(
            device,
            &none,
            &none,
            &AvgPool2d::Windows(s, AvgDivisor::Padded),
        )
        .expect("nothing to do");
    }
}

#[test]
fn integers_have_maxima_of_their_own_order() {
    for s in specs() {
        let [h, w] = s.windows.input;
        let windows = windows_of(&s);
        let n_outputs = s.planes * windows[0].len() * windows[1].len();
        let words = crate::testing::ids(3, s.planes * h * w, u32::MAX);
        let signed: Vec<i32> = words.iter().map(|word| word.cast_signed()).collect();
        let (mut y, mut unsigned_y) = (vec![i32::MIN; n_outputs], vec![0; n_outputs]);
        each_window(s.planes, s.windows.input, windows, |at, _, places| {
            y[at] = places
                .iter()
                .map(|&place| signed[place])
                .max()
                .unwrap_or(i32::MIN);
            unsigned_y[at] = places.iter().map(|&place| words[place]).max().unwrap_or(0);
        });
        let got = run_everywhere(&format!("max_pool2d of integers {s:?}"), |device, mem| {
            let (one, two) = (
                mem.input_of(device, &signed)?,
                mem.input_of(device, &words)?,
            );
            let indices = mem.output_of(device, DType::U32, n_outputs)?;
            let y = mem.output_of(device, DType::I32, n_outputs)?;
            let unsigned_y = mem.output_of(device, DType::U32, n_outputs)?;
            max_pool2d_forward(device, &one, &y, &indices, &s)?;
            max_pool2d_forward(device, &two, &unsigned_y, &indices, &s)?;
            Ok(vec![y, unsigned_y])
        });
        assert_eq!(elements_of::<i32>(&got[0], n_outputs), y, "{s:?}");
        assert_eq!(elements_of::<u32>(&got[1], n_outputs), unsigned_y, "{s:?}");
    }
}

#[test]
fn shapes_that_cannot_be_are_refused_in_one_line() {
    let good = specs()[1];
    let message = |s: Pool2d| s.output().expect_err("a shape that cannot be").to_string();
    for (windows, expected) in [
        (
            Windows {
                stride: [0, 1],
                ..good.windows
            },
            "pool2d: stride is [0, 1], expected at least 1",
        ),
        (
            Windows {
                padding: [2, 0],
                ..good.windows
            },
            "pool2d: padding is [2, 0], expected at most half of the kernel, [1, 1]",
        ),
        (
            Windows {
                dilation: [1, 8],
                ..good.windows
            },
            "pool2d: kernel has a width of 9, expected at most 7, the padded input's",
        ),
    ] {
        assert_eq!(message(Pool2d { windows, ..good }), expected);
    }
    let device = &hlx_core::testing::cpu().expect("the CPU device");
    let buffer = |len: usize| device.alloc(len).expect("memory");
    let [height, width] = good.output().expect("a shape");
    let (x, y) = (buffer(2 * 7 * 5), buffer(2 * height * width));
    let error = max_pool2d_forward(device, &x, &y, &y, &good).expect_err("indices of f32");
    let expected = "max_pool2d_forward: indices has dtype f32, expected u32";
    assert_eq!(error.to_string(), expected);
    let (places, bytes) = (
        device.alloc_typed(DType::U32, y.len()),
        device.alloc_typed(DType::I8, x.len()),
    );
    let (places, bytes) = (places.expect("memory"), bytes.expect("memory"));
    let error = max_pool2d_forward(device, &bytes, &y, &places, &good).expect_err("x of i8");
    let expected = "max_pool2d_forward: x has dtype i8, expected f32, i32 or u32";
    assert_eq!(error.to_string(), expected);
    let error = avg_pool2d_forward(
        device,
        &x,
        &y,
        &AvgPool2d::Windows(good, AvgDivisor::Fixed(0)),
    );
    let error = error.expect_err("a divisor of 0").to_string();
    assert_eq!(error, "avg_pool2d_forward: the divisor is 0");
    let error = avg_pool2d_forward(
        device,
        &x,
        &y,
        &AvgPool2d::Adaptive {
            planes: 2,
            input: [7, 5],
            output: [0, 1],
        },
    );
    let error = error.expect_err("no outputs").to_string();
    let expected = "adaptive_avg_pool2d_forward: output is [0, 1], expected from 1 to 32768";
    assert_eq!(error, expected);
}
