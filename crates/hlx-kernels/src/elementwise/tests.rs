//! Sums, products and scaling of contiguous tensors, against f64.

use super::*;
use crate::testing::{assert_close, run_everywhere, values};

const SIZES: [usize; 9] = [1, 2, 3, 31, 32, 33, 1009, 1024, 40_003];

#[test]
fn products_next_to_the_smallest_number_are_exact() {
    let (a, b) = crate::testing::pairs_next_to_the_smallest(3, 40_003);
    let got = run_everywhere("mul", |device, mem| {
        let (x, y) = (mem.input(device, &a)?, mem.input(device, &b)?);
        let out = mem.output(device, a.len())?;
        mul(device, &x, &y, &out)?;
        Ok(vec![out])
    });
    for ((x, y), product) in a.iter().zip(&b).zip(&got[0]) {
        let exact = hlx_core::arith::wide::mul(*x, *y);
        assert_eq!(product.to_bits(), exact.to_bits(), "{x:e} times {y:e}");
    }
    let below = a.iter().zip(&b).filter(|(x, y)| {
        let exact = f64::from(**x) * f64::from(**y);
        let rounds_up = hlx_core::arith::wide::mul(**x, **y) != 0.0;
        rounds_up && exact.abs() < f64::from(f32::MIN_POSITIVE)
    });
    assert!(below.count() > 1000, "pairs that round up to 2^-126");
}

#[test]
fn binary_operations_match_the_reference() {
    type Launcher = fn(&Device, &Buffer, &Buffer, &Buffer) -> Result<()>;
    type Reference = fn(f64, f64) -> f64;
    let cases: [(&str, Launcher, Reference); 3] = [
        ("add", add, |a, b| a + b),
        ("sub", sub, |a, b| a - b),
        ("mul", mul, |a, b| a * b),
    ];
    for (name, launcher, reference) in cases {
        for n in SIZES {
            let (a, b) = (stored(values(1, n)), stored(values(2, n)));
            let got = run_everywhere(name, |device, mem| {
                let (x, y) = (mem.input(device, &a)?, mem.input(device, &b)?);
                let out = mem.output(device, n)?;
                launcher(device, &x, &y, &out)?;
                Ok(vec![out])
            });
            let want: Vec<f64> = a
                .iter()
                .zip(&b)
                .map(|(a, b)| reference((*a).into(), (*b).into()))
                .collect();
            assert_close(name, &got[0], &want, 1e-7, 1.2e-38);
        }
    }
}

#[test]
fn scaling_by_host_and_by_device_agree() {
    for n in SIZES {
        let a = stored(values(3, n));
        let got = run_everywhere("scale", |device, mem| {
            let x = mem.input(device, &a)?;
            let factor = mem.input(device, &[-1.7])?;
            let (by_host, by_device) = (mem.output(device, n)?, mem.output(device, n)?);
            scale(device, &x, -1.7, &by_host)?;
            scale_by(device, &x, &factor, &by_device)?;
            scale_assign(device, &x, &factor)?;
            Ok(vec![by_host, by_device, x])
        });
        let want: Vec<f64> = a
            .iter()
            .map(|a| f64::from(*a) * f64::from(-1.7_f32))
            .collect();
        assert_close("scale", &got[0], &want, 1e-7, 1.2e-38);
        assert_eq!(bits(&got[0]), bits(&got[1]));
        assert_eq!(bits(&got[0]), bits(&got[2]), "in place");
    }
}

#[test]
fn addition_in_place_is_addition() {
    for n in SIZES {
        let (a, b) = (values(4, n), values(5, n));
        let got = run_everywhere("add_assign", |device, mem| {
            let (x, y) = (mem.input(device, &a)?, mem.input(device, &b)?);
            let out = mem.output(device, n)?;
            add(device, &x, &y, &out)?;
            add_assign(device, &x, &y)?;
            Ok(vec![out, x])
        });
        assert_eq!(bits(&got[0]), bits(&got[1]));
    }
}

#[test]
fn a_wrong_length_is_named() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let (a, b) = (
        device.alloc(4).expect("memory"),
        device.alloc(5).expect("memory"),
    );
    let error = add(&device, &a, &b, &a)
        .expect_err("lengths differ")
        .to_string();
    assert_eq!(error, "add: b has 5 elements, expected 4");
}

/// What a device stores of the data: an upload flushes subnormals.
fn stored(mut data: Vec<f32>) -> Vec<f32> {
    data.iter_mut()
        .filter(|x| x.is_subnormal())
        .for_each(|x| *x = 0.0);
    data
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter()
        .map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() })
        .collect()
}
