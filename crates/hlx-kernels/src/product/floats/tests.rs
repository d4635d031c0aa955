//! Tests of the product: every device and instruction set has the bits of a plain chain.

use hlx_core::arith;
use hlx_core::cpu::{simd_level, with_flush};

use super::*;
use crate::product::tiles::TILES;
use crate::testing::{assert_close, devices, normal, run_everywhere, run_on, values};
use hlx_core::testing::{cases, left_out};

mod epilogues;
mod few_rows;
mod halves;
mod instruction_sets;
mod long_chains;
mod prologue;

/// How a chain starts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Zero,
    Bias,
    Stored,
}

/// One product with its data.
#[derive(Clone)]
struct Case {
    shape: MatMul,
    from: From,
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
    c: Vec<f32>,
}

/// Elements of a buffer with a batch of matrices of `size`, `stride` apart.
fn extent(s: &MatMul, stride: usize, size: usize) -> usize {
    (s.batch - 1) * stride + size
}

impl Case {
    fn new(shape: MatMul, from: From, data: fn(u64, usize) -> Vec<f32>) -> Self {
        let s = MatMul {
            accumulate: from == From::Stored,
            ..shape
        };
        Self {
            shape: s,
            from,
            a: flushed(data(1, extent(&s, s.stride_a, s.m * s.k))),
            b: flushed(data(2, extent(&s, s.stride_b, s.k * s.n))),
            bias: flushed(data(3, s.n)),
            c: flushed(data(4, extent(&s, s.stride_c, s.m * s.n))),
        }
    }

    fn bias(&self) -> Option<&[f32]> {
        (self.from == From::Bias).then_some(&self.bias)
    }

    /// Visits every element of C: its place, the pairs of its chain, and the chain's start.
    fn for_each(&self, mut visit: impl FnMut(usize, &mut dyn Iterator<Item = (f32, f32)>, f32)) {
        let s = &self.shape;
        for z in 0..s.batch {
            for (m, n) in (0..s.m).flat_map(|m| (0..s.n).map(move |n| (m, n))) {
                let at = z * s.stride_c + m * s.n + n;
                let start = match self.from {
                    From::Zero => 0.0,
                    From::Bias => self.bias[n],
                    From::Stored => self.c[at],
                };
                let mut pairs = (0..s.k).map(|k| {
                    let a_at = if s.trans_a { k * s.m + m } else { m * s.k + k };
                    let b_at = if s.trans_b { n * s.k + k } else { k * s.n + n };
                    (self.a[z * s.stride_a + a_at], self.b[z * s.stride_b + b_at])
                });
                visit(at, &mut pairs, start);
            }
        }
    }

    /// The specification, word for word.
    fn chain(&self) -> Vec<f32> {
        let mut c = self.c.clone();
        with_flush(|| {
            self.for_each(|at, pairs, start| {
                let acc = pairs.fold(start, |acc, (a, b)| arith::fma(a, b, acc));
                c[at] = if acc == 0.0 { 0.0 } else { acc };
            });
        });
        c
    }

    /// The product in f64.
    fn exact(&self) -> Vec<f64> {
        let mut c: Vec<f64> = self.c.iter().map(|&x| f64::from(x)).collect();
        self.for_each(|at, pairs, start| {
            c[at] = pairs.fold(f64::from(start), |acc, (a, b)| {
                acc + f64::from(a) * f64::from(b)
            });
        });
        c
    }

    /// Runs the product on every device with one tile.
    fn run(&self, tile: &Tile) -> Vec<f32> {
        let s = &self.shape;
        let outputs = run_everywhere(
            &format!("matmul {s:?}, tile of {:?}", tile.size),
            |device, memory| {
                let a = memory.input(device, &self.a)?;
                let b = memory.input(device, &self.b)?;
                let bias = self
                    .bias()
                    .map(|bias| memory.input(device, bias))
                    .transpose()?;
                let c = if self.from == From::Stored || s.stride_c > s.m * s.n {
                    memory.input(device, &self.c)?
                } else {
                    memory.output(device, self.c.len())?
                };
                let product = FloatProduct {
                    bias: bias.as_ref(),
                    ..FloatProduct::new([&a, &b], &c, *s)
                };
                product.check()?;
                product.launch(device, tile)?;
                Ok(vec![c])
            },
        );
        outputs.into_iter().next().expect("one output")
    }
}

/// What an upload makes of the values.
fn flushed(mut data: Vec<f32>) -> Vec<f32> {
    for x in data.iter_mut().filter(|x| x.is_subnormal()) {
        *x = x.signum() * 0.0;
    }
    data
}

fn assert_same_bits(name: &str, got: &[f32], want: &[f32]) {
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(
            got.to_bits(),
            want.to_bits(),
            "{name}: element {at}: {got:e}, chain {want:e}"
        );
    }
}

fn shape(m: usize, n: usize, k: usize, trans: [bool; 2]) -> MatMul {
    MatMul {
        trans_a: trans[0],
        trans_b: trans[1],
        ..MatMul::new(m, n, k)
    }
}

/// The shader that devices which emulate the arithmetic take.
const SMALLEST: &Tile = &TILES[4];

/// The tiles of a form.
fn tiles(form: Form) -> impl Iterator<Item = &'static Tile> {
    TILES.iter().filter(move |tile| tile.form == form)
}

const TRANSPOSES: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];
const STARTS: [From; 3] = [From::Zero, From::Bias, From::Stored];

#[test]
fn all_transposes_and_starts_on_every_device() {
    for (i, trans) in TRANSPOSES.into_iter().enumerate() {
        // Whole vectors (multiples of 4) and ragged edges take different loads.
        for (j, (m, n, k)) in [(36, 44, 20), (33, 35, 17)].into_iter().enumerate() {
            let case = Case::new(shape(m, n, k, trans), STARTS[(i + j) % 3], values);
            assert_same_bits("matmul", &case.run(SMALLEST), &case.chain());
        }
    }
}

#[test]
fn sizes_around_the_tiles_on_every_device() {
    let sizes = [
        (1, 1, 1),
        (1, 33, 32),
        (31, 1, 33),
        (32, 32, 16),
        (67, 31, 15),
        (5, 67, 48),
    ];
    for (i, (m, n, k)) in sizes.into_iter().enumerate() {
        let case = Case::new(shape(m, n, k, TRANSPOSES[i % 4]), STARTS[i % 3], values);
        assert_same_bits("matmul", &case.run(SMALLEST), &case.chain());
    }
    for (i, tile) in tiles(Form::Dense).enumerate() {
        // One past a tile's edge, in fours and in ones, each with terms left after whole steps.
        for (more, k, trans) in [(1, 17, TRANSPOSES[i % 4]), (4, 36, TRANSPOSES[3 - i % 4])] {
            let (m, n) = (tile.size[0] + more, tile.size[1] - more);
            let case = Case::new(shape(m, n, k, trans), STARTS[i % 3], values);
            assert_same_bits("matmul", &case.run(tile), &case.chain());
        }
    }
}

#[test]
fn whole_steps_on_every_device() {
    // Loads without tests: rows and columns past an edge are read from it. An odd and an even
    // number of steps end in different halves of shared memory.
    for (i, tile) in tiles(Form::Dense).enumerate() {
        for (j, trans) in cases(TRANSPOSES.into_iter().enumerate(), 4) {
            let (m, n) = if (i + j) % 2 == 0 {
                (12, tile.size[1] + 4)
            } else {
                (tile.size[0], 20)
            };
            let k = tile.k_step * (2 + j);
            let case = Case::new(shape(m, n, k, trans), STARTS[(i + j) % 3], values);
            assert_same_bits("matmul", &case.run(tile), &case.chain());
        }
    }
}

#[test]
fn a_product_with_b_transposed_first_has_the_same_bits() {
    for (m, n, k) in [(36, 44, 20), (33, 35, 17)] {
        let case = Case::new(shape(m, n, k, [false, true]), From::Bias, values);
        let got = run_everywhere("matmul, B transposed", |device, memory| {
            let (a, b) = (
                memory.input(device, &case.a)?,
                memory.input(device, &case.b)?,
            );
            let bias = memory.input(device, &case.bias)?;
            let c = memory.output(device, case.c.len())?;
            let product = FloatProduct {
                bias: Some(&bias),
                ..FloatProduct::new([&a, &b], &c, case.shape)
            };
            product.with_b_transposed(device, |product| product.launch(device, SMALLEST))?;
            Ok(vec![c])
        });
        assert_same_bits("matmul, B transposed", &got[0], &case.chain());
    }
}

#[test]
fn a_large_product_has_the_bits_of_a_small_one() {
    // From thousands of rows on, B is transposed first; of a few rows, never.
    let large = shape(4096, 512, 1024, [false, true]);
    let few = MatMul { m: 64, ..large };
    let case = Case::new(large, From::Zero, normal);
    for device in devices() {
        if !device.native_arithmetic() {
            left_out(
                "a product of 4,096 rows",
                "emulated arithmetic takes minutes",
            );
            continue;
        }
        let outputs = run_on("matmul of many rows", device, |device, memory| {
            let (a, b) = (
                memory.input(device, &case.a)?,
                memory.input(device, &case.b)?,
            );
            let c = memory.output(device, large.m * large.n)?;
            let first = memory.output(device, few.m * few.n)?;
            matmul(device, &a, &b, None, &c, &large)?;
            matmul(device, &a.slice(0, few.m * few.k)?, &b, None, &first, &few)?;
            Ok(vec![c, first])
        });
        assert_same_bits("matmul", &outputs[0][..few.m * few.n], &outputs[1]);
    }
}

#[test]
fn batches_with_gaps_and_shared_operands_on_every_device() {
    for (stride_a, stride_b, gap) in [(0, 9 * 13, 0), (7 * 9 + 5, 0, 3), (64, 120, 1), (0, 0, 0)] {
        for from in STARTS {
            let s = MatMul {
                batch: 3,
                stride_a,
                stride_b,
                ..shape(7, 13, 9, [false, true])
            };
            let case = Case::new(
                MatMul {
                    stride_c: 7 * 13 + gap,
                    ..s
                },
                from,
                values,
            );
            assert_same_bits("matmul", &case.run(SMALLEST), &case.chain());
        }
    }
}

#[test]
fn negative_zero_never_leaves_a_chain() {
    // The last term of a chain is a tiny negative product, which flushes to -0; K is no multiple
    // of the shader's step, whose padding would make it +0.
    for k in [1, 3, 16, 17] {
        let mut case = Case::new(shape(3, 5, k, [false, false]), From::Zero, normal);
        case.a.fill(1e-30);
        case.b.fill(-1e-30);
        let got = case.run(SMALLEST);
        assert!(got.iter().all(|x| x.to_bits() == 0), "K = {k}: {got:?}");
    }
}

#[test]
fn no_terms_leave_the_start() {
    for from in STARTS {
        let case = Case::new(shape(5, 6, 0, [false, false]), from, values);
        let device = &hlx_core::testing::cpu().expect("the CPU device opens");
        let mut c = case.c.clone();
        with_flush(|| {
            cpu::matmul(
                simd_level(),
                &case.shape,
                &[],
                (&[], DType::F32),
                case.bias(),
                &mut c,
            )
        });
        assert_same_bits("matmul", &c, &case.chain());
        // Devices have no empty buffers to bind; sizes of zero elsewhere do nothing.
        let one = device.buffer_of(&[7.0]).expect("buffer");
        for empty in [
            shape(0, 1, 1, [false; 2]),
            MatMul {
                batch: 0,
                ..shape(1, 1, 1, [false; 2])
            },
        ] {
            matmul(device, &one, &one, None, &one, &empty).expect("nothing to do");
        }
        assert_eq!(device.download::<f32>(&one).expect("download"), [7.0]);
    }
}

#[test]
fn follows_an_f64_reference() {
    for trans in TRANSPOSES {
        let case = Case::new(shape(37, 41, 53, trans), From::Bias, normal);
        assert_close("matmul", &case.run(SMALLEST), &case.exact(), 1e-5, 1e-5);
    }
}

#[test]
fn wrong_arguments_are_errors() {
    let device = &hlx_core::testing::cpu().expect("the CPU device opens");
    let [two, four] = [2, 4].map(|len| device.buffer_of(&vec![1.0; len]).expect("buffer"));
    let s = MatMul::new(2, 2, 2);
    let error = |result: Result<()>| result.expect_err("an error").to_string();
    let out = device.alloc(4).expect("buffer");
    assert_eq!(
        error(matmul(device, &two, &four, None, &out, &s)),
        "matmul: a has 2 elements, expected 4"
    );
    let both = MatMul {
        accumulate: true,
        ..s
    };
    assert!(
        error(matmul(device, &four, &four, Some(&two), &out, &both))
            .contains("bias and accumulate")
    );
    let overlap = MatMul {
        batch: 2,
        stride_c: 3,
        ..s
    };
    assert_eq!(
        error(matmul(device, &four, &four, None, &out, &overlap)),
        "matmul: stride_c is 3, expected at least 4"
    );
}
