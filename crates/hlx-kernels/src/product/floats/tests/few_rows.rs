//! Tests of the shaders for few rows: the bits of the plain chain, for every type of B.

use super::halves::Right;
use super::*;
use crate::activation::Activation;
use crate::tuning::KernelTuning;

const CUTS: [Cut; 2] = [Cut::Narrow, Cut::Wide];

/// A product of a token's with a weight: B stored `[N,K]`.
fn product(m: usize, n: usize, k: usize) -> MatMul {
    shape(m, n, k, [false, true])
}

/// Runs the product in one cut on every device, with a residual in its epilogue or without.
fn run(case: &Case, b: &Right, cut: Cut, residual: Option<&[f32]>) -> Vec<f32> {
    let s = &case.shape;
    let outputs = run_everywhere(&format!("{s:?}, {cut:?}"), |device, memory| {
        let (a, b) = (memory.input(device, &case.a)?, b.upload(device, memory)?);
        let bias = case.bias().map(|bias| memory.input(device, bias));
        let bias = bias.transpose()?;
        let residual = residual.map(|r| memory.input(device, r)).transpose()?;
        let epilogue = residual.as_ref().map_or(Epilogue::None, Epilogue::Add);
        let c = memory.output(device, case.c.len())?;
        FloatProduct {
            bias: bias.as_ref(),
            epilogue,
            ..FloatProduct::new([&a, &b], &c, *s)
        }
        .by_few_rows(device, cut)?;
        Ok(vec![c])
    });
    outputs.into_iter().next().expect("one output")
}

#[test]
fn few_rows_have_the_bits_of_the_chain_on_every_device() {
    // Below a unit of columns, at the edges of workgroups, and tiles of k in every number up to where
    // loads come around again: whole tiles, and one unit more or less.
    let sizes = [
        (1, 1, 8),
        (1, 8, 256),
        (3, 31, 264),
        (4, 33, 1016),
        (2, 65, 1024),
        (1, 9, 2312),
        (4, 7, 1280),
    ];
    for (i, (m, n, k)) in sizes.into_iter().enumerate() {
        for (j, dtype) in Right::TYPES.into_iter().enumerate() {
            for (l, cut) in CUTS.into_iter().enumerate() {
                let from = [From::Zero, From::Bias][(i + j + l) % 2];
                let mut case = Case::new(product(m, n, k), from, values);
                let b = Right::of(&mut case, dtype);
                let residual = (i % 2 == l).then(|| flushed(values(5, m * n)));
                let mut want = case.chain();
                if let Some(residual) = &residual {
                    with_flush(|| {
                        for (want, r) in want.iter_mut().zip(residual) {
                            *want += r;
                        }
                    });
                }
                let got = run(&case, &b, cut, residual.as_deref());
                assert_same_bits(&format!("{dtype} {cut:?}"), &got, &want);
            }
        }
    }
}

#[test]
fn as_many_rows_as_shared_memory_takes_on_every_device() {
    let limits = devices().iter().map(|device| match device.is_cpu() {
        true => usize::MAX,
        false => device.info().shared_memory_bytes as usize,
    });
    let limit = limits.min().expect("a device");
    for dtype in Right::TYPES {
        let fitting = |m: &usize| Cut::Narrow.fits(&product(*m, 19, 520), dtype, limit);
        let m = (1..=16).rev().find(fitting).expect("a row fits");
        assert!(m > 8, "only {m} rows of {dtype} fit");
        let mut case = Case::new(product(m, 19, 520), From::Bias, values);
        let b = Right::of(&mut case, dtype);
        let got = run(&case, &b, Cut::Narrow, None);
        assert_same_bits(&format!("{m} rows of {dtype}"), &got, &case.chain());
    }
}

#[test]
fn more_rows_than_a_workgroup_has_are_spread_over_several() {
    let limits = devices().iter().filter(|device| !device.is_cpu());
    let limit = limits.map(|device| device.info().shared_memory_bytes as usize);
    let limit = limit.min().unwrap_or(usize::MAX);
    for dtype in Right::TYPES {
        for (cut, m) in [(Cut::Narrow, 17), (Cut::Narrow, 64), (Cut::Wide, 9)] {
            if cut.fits(&product(m, 19, 264), dtype, limit) {
                let mut case = Case::new(product(m, 19, 264), From::Bias, values);
                let b = Right::of(&mut case, dtype);
                let got = run(&case, &b, cut, None);
                assert_same_bits(&format!("{m} rows of {dtype}"), &got, &case.chain());
            } else {
                // Only 16 rows of 16-bit weights take more than 32 KiB.
                assert!(
                    limit < 48 << 10 && dtype != DType::F32,
                    "{m} rows of {dtype}"
                );
            }
        }
    }
}

#[test]
fn cuts_are_for_what_their_shaders_compute() {
    let fits = |cut: Cut, shape: &MatMul, dtype| cut.fits(shape, dtype, 49_152);
    let one = product(1, 64, 1024);
    for cut in CUTS {
        assert!(fits(cut, &one, DType::BF16));
        // Rows of 16 bits that begin within 16 bytes; f32 needs multiples of four.
        assert!(!fits(cut, &product(1, 64, 1028), DType::BF16));
        assert!(fits(cut, &product(1, 64, 1028), DType::F32));
        for other in [
            MatMul {
                trans_a: true,
                ..one
            },
            MatMul {
                trans_b: false,
                ..one
            },
            MatMul { batch: 2, ..one },
            MatMul {
                accumulate: true,
                ..one
            },
            product(1, 64, 0),
        ] {
            assert!(!fits(cut, &other, DType::BF16), "{other:?}");
        }
    }
    let cpu = devices()
        .iter()
        .find(|device| device.is_cpu())
        .expect("the CPU");
    assert_eq!(Cut::choose(cpu, &one, DType::BF16), None);
    for device in devices().iter().filter(|device| !device.is_cpu()) {
        let chosen = |n| Cut::choose(device, &product(1, n, 1024), DType::BF16);
        let products = &KernelTuning::of(device).products;
        let [wide, wide_of_more] = products.few_rows_wide_from;
        assert!(chosen(wide).is_some_and(|cut| cut == Cut::Wide || !fits_on(device, wide)));
        assert_eq!(chosen(wide - 1), Some(Cut::Narrow));
        let of_rows = |m, n| Cut::choose(device, &product(m, n, 1024), DType::F32);
        // Nine rows are more than a wide workgroup's; more than 16 are spread over as many workgroups as are wanted.
        assert_eq!(of_rows(9, wide_of_more), Some(Cut::Narrow));
        let [_, split_groups] = products.few_rows_split_groups;
        assert_eq!(of_rows(17, 8 * (split_groups / 2)), Some(Cut::Narrow));
        assert_eq!(of_rows(17, 8 * (split_groups / 2) + 1), None);
        assert_eq!(of_rows(65, 8), None);
    }
}

/// Whether the wide cut's tile is within the device's shared memory.
fn fits_on(device: &Device, n: usize) -> bool {
    let limit = device.info().shared_memory_bytes as usize;
    Cut::Wide.fits(&product(1, n, 1024), DType::BF16, limit)
}

#[test]
fn every_epilogue_of_few_rows_has_the_bits_of_separate_launches() {
    let mut case = Case::new(product(3, 21, 272), From::Bias, normal);
    let b = Right::of(&mut case, DType::BF16);
    for epilogue_idx in 0..3 {
        let outputs = [true, false].map(|together| {
            run_everywhere("few rows and an epilogue", |device, memory| {
                let (a, b) = (memory.input(device, &case.a)?, b.upload(device, memory)?);
                let bias = memory.input(device, &case.bias)?;
                let c = memory.input(device, &case.c)?;
                let out = memory.input(device, &values(5, case.c.len()))?;
                let kind = Activation::SiLU;
                let epilogue = [
                    Epilogue::Scale(-1.7),
                    Epilogue::Activation { kind, out: &out },
                    Epilogue::ActivationBackward(kind),
                ][epilogue_idx];
                let product = FloatProduct {
                    bias: Some(&bias),
                    epilogue,
                    ..FloatProduct::new([&a, &b], &c, case.shape)
                };
                match together {
                    true => product.run(device)?,
                    false => product.separately(device, |product| product.run(device))?,
                }
                Ok(vec![c, out])
            })
        });
        assert_same_bits("C", &outputs[0][0], &outputs[1][0]);
        assert_same_bits("out", &outputs[0][1], &outputs[1][1]);
    }
}
