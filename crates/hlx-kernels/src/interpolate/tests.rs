//! Interpolation: bits of all devices are those of loops that scatter, values are PyTorch's.

use hlx_core::arith;
use hlx_core::cpu::with_flush;

use super::*;
use crate::testing::{assert_close, normal, run_everywhere, values};

const MODES: [Interpolation; 3] = [
    Interpolation::Nearest,
    Interpolation::Bilinear,
    Interpolation::BilinearAligned,
];

fn spec(
    planes: usize,
    input: [usize; 2],
    output: [usize; 2],
    mode: Interpolation,
) -> Interpolate2d {
    Interpolate2d {
        planes,
        input,
        output,
        mode,
        scale_factor: None,
    }
}

fn specs() -> Vec<Interpolate2d> {
    let extents = [
        ([3, 5], [6, 10]),
        ([7, 4], [3, 9]),
        ([9, 8], [4, 1]),
        ([1, 13], [1, 29]),
        ([5, 1], [5, 3]),
    ];
    let all = |(input, output)| MODES.map(|mode| spec(2, input, output, mode));
    let mut specs: Vec<_> = extents.into_iter().flat_map(all).collect();
    // Factors that are not the quotient of the extents: places past the last input.
    specs.extend(MODES.map(|mode| Interpolate2d {
        scale_factor: Some([1.3, 0.7]),
        ..spec(2, [5, 9], [7, 6], mode)
    }));
    specs
}

/// The sources of an output along an axis and their weights, each input once.
fn sources(s: &Interpolate2d, axis: usize, o: usize) -> Vec<(usize, f32)> {
    let (inputs, outputs) = (s.input[axis], s.output[axis]);
    let scale = match s.scale_factor {
        Some(factors) => (1.0 / factors[axis]) as f32,
        None => inputs as f32 / outputs as f32,
    };
    let place = match s.mode {
        Interpolation::Nearest => arith::mul(o as f32, scale),
        Interpolation::Bilinear => arith::fma(scale, o as f32 + 0.5, -0.5).max(0.0),
        Interpolation::BilinearAligned if outputs == 1 => 0.0,
        Interpolation::BilinearAligned => {
            arith::mul(o as f32, (inputs - 1) as f32 / (outputs - 1) as f32)
        }
    };
    let first = (place.floor() as usize).min(inputs - 1);
    let right = (place - first as f32).min(1.0);
    if s.mode == Interpolation::Nearest {
        return vec![(first, 1.0)];
    }
    if first + 1 == inputs {
        return vec![(first, (1.0 - right) + right)];
    }
    vec![(first, 1.0 - right), (first + 1, right)]
}

/// The gradient of the input by scattering, output by output in row-major order.
fn backward(s: &Interpolate2d, dy: &[f32]) -> Vec<f32> {
    let ([h, w], [oh, ow]) = (s.input, s.output);
    let mut dx = vec![0.0; s.planes * h * w];
    with_flush(|| {
        for (at, dy) in dy.iter().enumerate() {
            let (plane, oy, ox) = (at / (oh * ow), at / ow % oh, at % ow);
            for (iy, wy) in sources(s, 0, oy) {
                for (ix, wx) in sources(s, 1, ox) {
                    let dx = &mut dx[(plane * h + iy) * w + ix];
                    *dx = arith::fma(arith::mul(wy, wx), *dy, *dx);
                }
            }
        }
    });
    dx.into_iter().map(arith::pos0).collect()
}

/// The results in f64, from the same places.
fn forward(s: &Interpolate2d, x: &[f32]) -> Vec<f64> {
    let ([h, w], [oh, ow]) = (s.input, s.output);
    let value = |at: usize| {
        let (plane, oy, ox) = (at / (oh * ow), at / ow % oh, at % ow);
        let mut sum = 0.0;
        for (iy, wy) in sources(s, 0, oy) {
            for (ix, wx) in sources(s, 1, ox) {
                let x = f64::from(x[(plane * h + iy) * w + ix]);
                sum += f64::from(wy) * f64::from(wx) * x;
            }
        }
        sum
    };
    (0..s.planes * oh * ow).map(value).collect()
}

fn run(s: &Interpolate2d, x: &[f32], dy: &[f32]) -> Vec<Vec<f32>> {
    run_everywhere(&format!("interpolate2d {s:?}"), |device, mem| {
        let (x, dy) = (mem.input(device, x)?, mem.input(device, dy)?);
        let (y, dx) = (mem.output(device, dy.len())?, mem.output(device, x.len())?);
        interpolate2d_forward(device, &x, &y, s)?;
        interpolate2d_backward(device, &dy, &dx, s)?;
        Ok(vec![y, dx])
    })
}

#[test]
fn results_and_gradients_follow_the_definition() {
    for s in specs() {
        let lens = [s.input, s.output].map(|[height, width]| s.planes * height * width);
        let (x, dy) = (normal(1, lens[0]), values(2, lens[1]));
        let got = run(&s, &x, &dy);
        assert_close(&format!("{s:?}"), &got[0], &forward(&s, &x), 1e-6, 1e-6);
        for (at, (got, want)) in got[1].iter().zip(backward(&s, &dy)).enumerate() {
            assert_eq!(
                got.to_bits(),
                want.to_bits(),
                "{s:?}: dx, element {at}: {got:e}, {want:e}"
            );
        }
    }
}

#[test]
fn values_are_those_of_pytorch() {
    let x = [1.0, 2.0, 3.0, 4.0];
    let result = |output, mode| {
        let s = spec(1, [2, 2], output, mode);
        run(&s, &x, &vec![1.0; output[0] * output[1]]).swap_remove(0)
    };
    assert_eq!(
        result([4, 4], Interpolation::Bilinear)[..8],
        [1.0, 1.25, 1.75, 2.0, 1.5, 1.75, 2.25, 2.5]
    );
    assert_eq!(
        result([3, 3], Interpolation::BilinearAligned),
        [1.0, 1.5, 2.0, 2.0, 2.5, 3.0, 3.0, 3.5, 4.0]
    );
    assert_eq!(
        result([3, 4], Interpolation::Nearest),
        [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
    );
}

#[test]
fn nothing_and_what_cannot_be() {
    let device = &hlx_core::testing::cpu().expect("the CPU device");
    let none = device.alloc(0).expect("an empty buffer");
    let s = spec(0, [2, 2], [3, 3], Interpolation::Bilinear);
    interpolate2d_forward(device, &none, &none, &s).expect("nothing to do");
    interpolate2d_backward(device, &none, &none, &s).expect("nothing to do");
    let message = |s: Interpolate2d| {
        let error = interpolate2d_forward(device, &none, &none, &s).expect_err("refused");
        error.to_string()
    };
    assert_eq!(
        message(Interpolate2d {
            output: [0, 3],
            ..s
        }),
        "interpolate2d_forward: output is [0, 3], expected from 1 to 16777216"
    );
    assert_eq!(
        message(Interpolate2d { planes: 1, ..s }),
        "interpolate2d_forward: x has 0 elements, expected 4"
    );
    assert_eq!(
        message(Interpolate2d {
            scale_factor: Some([1.0, -2.0]),
            ..s
        }),
        "interpolate2d_forward: scale_factor is Some([1.0, -2.0]), expected positive numbers near \
         output / input"
    );
}
