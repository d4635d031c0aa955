//! Products of rounded operands: every device against exact sums, and against itself.

use hlx_core::{Device, Half};

use crate::activation::Activation;
use crate::product::{End, Epilogue, Matrices, Operand, Role, multiply};
use crate::testing::{TestMemory, devices_in_fast, normal};
use crate::tuning::KernelTuning;
use crate::{Layout, Result};

/// Small integers, whose sums are exact in every order.
fn integers(seed: u64, len: usize) -> Vec<f32> {
    normal(seed, len)
        .iter()
        .map(|x| (x * 3.0).round())
        .collect()
}

fn of(columns: bool, outer: usize, vectors: usize, terms: usize) -> Matrices {
    match columns {
        false => Matrices::rows(outer, vectors, terms),
        true => Matrices::columns(outer, terms, vectors),
    }
}

/// What a product does at its end.
#[derive(Clone, Copy, Debug)]
enum Ending {
    None,
    Bias,
    Add,
    Accumulate,
    Activation,
}

/// A product of given numbers.
struct Case {
    sizes: [usize; 4],
    columns: [bool; 2],
    ending: Ending,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Case {
    fn run(&self, device: &Device) -> Result<Vec<f32>> {
        let [batch, m, n, k] = self.sizes;
        let mut mem = TestMemory::default();
        let a = mem.input(device, &self.a)?;
        let b = mem.input(device, &self.b)?;
        let bias = mem.input(device, &integers(3, n))?;
        let r = mem.input(device, &integers(4, batch * m * n))?;
        let c = mem.input(device, &integers(5, batch * m * n))?;
        let a = Operand::new(device, Role::Signal, &a, of(self.columns[0], batch, m, k))?;
        let b = Operand::new(device, Role::Weight, &b, of(self.columns[1], batch, n, k))?;
        let end = End {
            bias: matches!(self.ending, Ending::Bias).then_some(&bias),
            accumulate: matches!(self.ending, Ending::Accumulate),
            epilogue: match self.ending {
                Ending::Add => Epilogue::Add(&r),
                Ending::Activation => Epilogue::Activation {
                    kind: Activation::ReLU,
                    out: &r,
                },
                _ => Epilogue::None,
            },
        };
        multiply(device, [&a, &b], end, &c)?;
        let mut found = device.download::<f32>(&c)?;
        found.extend(device.download::<f32>(&r)?);
        mem.check_fences("half_product", device)?;
        Ok(found)
    }

    /// The same in 64 bits: C, and what else is written.
    fn expected(&self) -> Vec<f32> {
        let [batch, m, n, k] = self.sizes;
        let at = |columns: bool, i: usize, vector: usize, vectors: usize, term: usize| match columns
        {
            false => (i * vectors + vector) * k + term,
            true => (i * k + term) * vectors + vector,
        };
        let (bias, mut r) = (integers(3, n), integers(4, batch * m * n));
        let mut c = integers(5, batch * m * n);
        for i in 0..batch {
            for row in 0..m {
                for (column, bias) in bias.iter().enumerate() {
                    let terms = (0..k).map(|term| {
                        let a = self.a[at(self.columns[0], i, row, m, term)];
                        f64::from(a) * f64::from(self.b[at(self.columns[1], i, column, n, term)])
                    });
                    let (sum, place) =
                        (terms.sum::<f64>() as f32 + 0.0, (i * m + row) * n + column);
                    c[place] = match self.ending {
                        Ending::None | Ending::Activation => sum,
                        Ending::Bias => sum + bias,
                        Ending::Add => sum + r[place],
                        Ending::Accumulate => sum + c[place],
                    } + 0.0;
                    if let Ending::Activation = self.ending {
                        r[place] = sum.max(0.0);
                    }
                }
            }
        }
        c.extend(r);
        c
    }
}

#[test]
fn exact_sums_are_right_in_every_order_and_form() -> Result<()> {
    let sizes = [
        [1, 1, 1, 1],
        [1, 16, 64, 32],
        [2, 17, 33, 40],
        [1, 65, 70, 31],
        [3, 64, 128, 64],
        [1, 130, 132, 100],
    ];
    let endings = [
        Ending::None,
        Ending::Bias,
        Ending::Add,
        Ending::Accumulate,
        Ending::Activation,
    ];
    let columns = [[false, false], [false, true], [true, true], [true, false]];
    let all = sizes.into_iter().enumerate().flat_map(|(number, sizes)| {
        let of_endings = endings.into_iter().enumerate();
        of_endings.map(move |(form, ending)| (sizes, columns[(number + form) % 4], ending))
    });
    // A pipeline each, which software drivers compile for seconds.
    for (sizes, columns, ending) in hlx_core::testing::cases(all, 4) {
        let [batch, m, n, k] = sizes;
        let case = Case {
            sizes,
            columns,
            ending,
            a: integers(1, batch * m * k),
            b: integers(2, batch * n * k),
        };
        let expected = case.expected();
        for half in Half::ALL {
            for device in devices_in_fast(half) {
                let info = device.info();
                let found = case.run(&device)?;
                assert_eq!(
                    found, expected,
                    "{half:?} {sizes:?} {columns:?} {ending:?} {info}"
                );
            }
        }
    }
    Ok(())
}

/// Neither the tile nor the rows beside a row change its bits, nor does how its operands lie.
#[test]
fn a_row_is_the_same_in_every_tile_and_beside_other_rows() -> Result<()> {
    let [m, n, k] = [150, 140, 200];
    let (a, b) = (normal(1, m * k), normal(2, n * k));
    let transposed = |x: &[f32], rows: usize| -> Vec<f32> {
        let at = |i: usize| x[i % rows * k + i / rows];
        (0..x.len()).map(at).collect()
    };
    for half in Half::ALL {
        for device in devices_in_fast(half) {
            let all = Case {
                sizes: [1, m, n, k],
                columns: [false; 2],
                ending: Ending::None,
                a: a.clone(),
                b: b.clone(),
            };
            let whole = all.run(&device)?;
            for tile in &KernelTuning::of(&device).products.half_tiles {
                let mut tuning = KernelTuning::of(&device).clone();
                tuning.products.half_tiles = vec![tile.clone()];
                let device = tuning.on(&device).expect("a tuning");
                for (rows, columns) in [
                    (m, [false; 2]),
                    (m, [true; 2]),
                    (100, [false, true]),
                    (3, [false; 2]),
                ] {
                    let first = &a[..rows * k];
                    let case = Case {
                        sizes: [1, rows, n, k],
                        columns,
                        ending: Ending::None,
                        a: if columns[0] {
                            transposed(first, rows)
                        } else {
                            first.to_vec()
                        },
                        b: if columns[1] {
                            transposed(&b, n)
                        } else {
                            b.clone()
                        },
                    };
                    let found = case.run(&device)?;
                    let (found, whole) = (&found[..rows * n], &whole[..rows * n]);
                    let same = found
                        .iter()
                        .zip(whole)
                        .all(|(x, y)| x.to_bits() == y.to_bits());
                    assert!(
                        same,
                        "{half:?} {rows} {columns:?} {tile:?} {}",
                        device.info()
                    );
                }
            }
        }
    }
    Ok(())
}

/// What the CPU device computes of the same rounded numbers is close to a GPU's.
#[test]
fn the_cpu_is_near_and_rounds_alike() -> Result<()> {
    let [m, n, k] = [33, 40, 300];
    for half in Half::ALL {
        let case = Case {
            sizes: [1, m, n, k],
            columns: [false; 2],
            ending: Ending::None,
            a: normal(7, m * k),
            b: normal(8, n * k),
        };
        let mut results = Vec::new();
        for device in devices_in_fast(half) {
            let x = device.buffer_of(&case.a)?;
            let rounded = super::Halves::new(&device, half, (&x).into(), [1, m * k])?;
            let back = device.alloc(m * k)?;
            let layout = Layout::contiguous(&[m * k])?;
            let of = rounded.values.slice(0, m * k)?;
            crate::elementwise::copy_strided(&device, crate::Operand::new(&of, &layout), &back)?;
            results.push((device.download::<f32>(&back)?, case.run(&device)?));
        }
        let (rounded, sums) = &results[0];
        for (x, rounded) in case.a.iter().zip(rounded) {
            let expected = match half {
                Half::Bf16 => half::bf16::from_f32(*x).to_f32(),
                Half::F16 => half::f16::from_f32(*x).to_f32(),
            };
            assert_eq!(*rounded, expected);
        }
        for (other, found) in &results[1..] {
            assert_eq!(other, rounded);
            let far = sums.iter().zip(found).find(|(x, y)| (*x - *y).abs() > 1e-3);
            assert_eq!(far, None, "{half:?}");
        }
    }
    Ok(())
}
