//! Fills, ranges and bands: bits of all devices, and every type to its last byte.

use half::f16;
use hlx_core::Bool;

use super::*;
use crate::testing::{assert_close, elements_of, run_everywhere};

#[test]
fn every_type_is_filled_to_its_last_byte() {
    for n in [1, 5, 4099] {
        let got = run_everywhere("fill", |device, mem| {
            let mut outputs = Vec::new();
            for dtype in DType::ALL {
                let out = mem.output_of(device, dtype, n)?;
                fill(device, 3.0, &out)?;
                outputs.push(out);
            }
            Ok(outputs)
        });
        assert_eq!(got[0], vec![3.0; n]);
        assert_eq!(elements_of::<f16>(&got[1], n), vec![f16::from_f32(3.0); n]);
        assert_eq!(elements_of::<i32>(&got[3], n), vec![3; n]);
        assert_eq!(elements_of::<i8>(&got[5], n), vec![3; n]);
        assert_eq!(elements_of::<Bool>(&got[7], n), vec![Bool::from(true); n]);
    }
}

#[test]
fn values_are_evenly_spaced() {
    for n in [1, 2, 7, 4099] {
        let got = run_everywhere("arange", |device, mem| {
            let (floats, whole) = (
                mem.output(device, n)?,
                mem.output_of(device, DType::I32, n)?,
            );
            let (bytes, between) = (mem.output_of(device, DType::I8, n)?, mem.output(device, n)?);
            arange(device, -1.5, 0.1, &floats)?;
            arange(device, 5.0, -3.0, &whole)?;
            arange(device, 5.0, -3.0, &bytes)?;
            linspace(device, -1.0, 2.0, &between)?;
            Ok(vec![floats, whole, bytes, between])
        });
        let want: Vec<f64> = (0..n)
            .map(|i| -1.5 + i as f64 * f64::from(0.1_f32))
            .collect();
        assert_close("arange", &got[0], &want, 6e-8, 2e-8);
        let want: Vec<i32> = (0..n as i32).map(|i| 5 - 3 * i).collect();
        assert_eq!(elements_of::<i32>(&got[1], n), want);
        let want: Vec<i8> = want.into_iter().map(|x| x as i8).collect();
        assert_eq!(elements_of::<i8>(&got[2], n), want);
        let last = n.saturating_sub(1).max(1) as f64;
        let want: Vec<f64> = (0..n).map(|i| -1.0 + 3.0 * i as f64 / last).collect();
        assert_close("linspace", &got[3], &want, 1e-7, 1e-7);
        assert_eq!((got[3][0], n == 1 || got[3][n - 1] == 2.0), (-1.0, true));
    }
}

#[test]
fn bands_are_diagonals_and_triangles() {
    for [rows, columns] in [[1, 1], [3, 5], [40, 31]] {
        let of = |low, high| Band {
            rows,
            columns,
            low,
            high,
        };
        let bands = [
            of(Some(0), Some(0)),
            of(None, Some(-1)),
            of(Some(2), None),
            of(None, None),
        ];
        let n = 3 * rows * columns;
        let got = run_everywhere("band", |device, mem| {
            let mut outputs = Vec::new();
            for of in bands {
                let (floats, truths) = (
                    mem.output(device, n)?,
                    mem.output_of(device, DType::Bool, n)?,
                );
                band(device, of, &floats)?;
                band(device, of, &truths)?;
                outputs.extend([floats, truths]);
            }
            Ok(outputs)
        });
        for (of, outputs) in bands.iter().zip(got.chunks(2)) {
            let truths = elements_of::<Bool>(&outputs[1], n);
            for (i, &truth) in truths.iter().enumerate() {
                let distance = (i % columns) as i64 - (i / columns % rows) as i64;
                let within = of.low.is_none_or(|low| low <= distance)
                    && of.high.is_none_or(|high| distance <= high);
                assert_eq!(bool::from(truth), within, "{of:?} at {i}");
                assert_eq!(outputs[0][i], f32::from(u8::from(within)));
            }
        }
    }
}

#[test]
fn outputs_that_do_not_fit_are_refused_in_one_line() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let out = device.alloc_typed(DType::I32, 5).expect("memory");
    let square = Band {
        rows: 2,
        columns: 2,
        low: None,
        high: None,
    };
    let error = band(&device, square, &out)
        .expect_err("5 elements")
        .to_string();
    assert_eq!(
        error,
        "band: out has 5 elements, expected matrices of 2 x 2"
    );
    let error = linspace(&device, 0.0, 1.0, &out)
        .expect_err("integers")
        .to_string();
    assert_eq!(error, "linspace: out is i32, expected a float type");
}
