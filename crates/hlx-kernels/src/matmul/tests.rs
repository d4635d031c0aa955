//! Tests of the product: every device and instruction set has the bits of a plain chain.

use hlx_core::arith;
use hlx_core::cpu::{simd_level, simd_levels, with_flush};

use super::table::TILES;
use super::*;
use crate::activation::Activation;
use crate::testing::{
    TestMemory, assert_close, contexts, normal, pairs_next_to_the_smallest, run_everywhere, run_on,
    values,
};
use hlx_core::testing::left_out;

mod long_chains;

/// How a chain starts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Zero,
    Bias,
    Stored,
}

/// One product with its data.
struct Case {
    shape: MatMul,
    from: From,
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
    c: Vec<f32>,
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
            a: flushed(data(1, s.extent(s.stride_a, s.m * s.k))),
            b: flushed(data(2, s.extent(s.stride_b, s.k * s.n))),
            bias: flushed(data(3, s.n)),
            c: flushed(data(4, s.extent(s.stride_c, s.m * s.n))),
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
            &format!("matmul {s:?}, tile of {} x {}", tile.rows, tile.columns),
            |ctx, memory| {
                let a = memory.input(ctx, &self.a)?;
                let b = memory.input(ctx, &self.b)?;
                let bias = self
                    .bias()
                    .map(|bias| memory.input(ctx, bias))
                    .transpose()?;
                let c = if self.from == From::Stored || s.stride_c > s.m * s.n {
                    memory.input(ctx, &self.c)?
                } else {
                    memory.output(ctx, self.c.len())?
                };
                check(&a, &b, bias.as_ref(), &c, s)?;
                matmul_in(ctx, [&a, &b], bias.as_ref(), &c, s, tile, Epilogue::None)?;
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
const SMALLEST: &Tile = &TILES[TILES.len() - 1];
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
    for (i, tile) in TILES.iter().enumerate() {
        // One past a tile's edge, in fours and in ones, each with terms left after whole steps.
        for (more, k, trans) in [(1, 17, TRANSPOSES[i]), (4, 36, TRANSPOSES[3 - i])] {
            let (m, n) = (tile.rows + more, tile.columns - more);
            let case = Case::new(shape(m, n, k, trans), STARTS[i % 3], values);
            assert_same_bits("matmul", &case.run(tile), &case.chain());
        }
    }
}

#[test]
fn whole_steps_on_every_device() {
    // Loads without tests: rows and columns past an edge are read from it. An odd and an even
    // number of steps end in different halves of shared memory.
    for (i, tile) in TILES.iter().enumerate() {
        for (j, trans) in TRANSPOSES.into_iter().enumerate() {
            let (m, n) = if (i + j) % 2 == 0 {
                (12, tile.columns + 4)
            } else {
                (tile.rows, 20)
            };
            let k = tile.k_step * (2 + j);
            let case = Case::new(shape(m, n, k, trans), STARTS[(i + j) % 3], values);
            assert_same_bits("matmul", &case.run(tile), &case.chain());
        }
    }
}

#[test]
fn a_product_with_b_turned_first_has_the_same_bits() {
    for (m, n, k) in [(36, 44, 20), (33, 35, 17)] {
        let case = Case::new(shape(m, n, k, [false, true]), From::Bias, values);
        let got = run_everywhere("matmul, B turned", |ctx, memory| {
            let (a, b) = (memory.input(ctx, &case.a)?, memory.input(ctx, &case.b)?);
            let bias = memory.input(ctx, &case.bias)?;
            let c = memory.output(ctx, case.c.len())?;
            let (b, plain) = turn_b(ctx, &b, &case.shape)?;
            let operands = [&a, &b];
            matmul_in(
                ctx,
                operands,
                Some(&bias),
                &c,
                &plain,
                SMALLEST,
                Epilogue::None,
            )?;
            Ok(vec![c])
        });
        assert_same_bits("matmul, B turned", &got[0], &case.chain());
    }
}

#[test]
fn a_large_product_has_the_bits_of_a_small_one() {
    // From thousands of rows on, B is turned first; of a few rows, never.
    let large = shape(4096, 512, 1024, [false, true]);
    let few = MatMul { m: 64, ..large };
    let case = Case::new(large, From::Zero, normal);
    for ctx in contexts() {
        if !ctx.native_arithmetic() {
            left_out(
                "a product of 4,096 rows",
                "emulated arithmetic takes minutes",
            );
            continue;
        }
        let outputs = run_on("matmul of many rows", ctx, |ctx, memory| {
            let (a, b) = (memory.input(ctx, &case.a)?, memory.input(ctx, &case.b)?);
            let c = memory.output(ctx, large.m * large.n)?;
            let first = memory.output(ctx, few.m * few.n)?;
            matmul(ctx, &a, &b, None, &c, &large)?;
            matmul(ctx, &a.slice(0, few.m * few.k)?, &b, None, &first, &few)?;
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
    // of the shader's step, whose padding would turn it into +0.
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
        let ctx = &hlx_core::testing::cpu().expect("the CPU device opens");
        let mut c = case.c.clone();
        with_flush(|| cpu::matmul(simd_level(), &case.shape, &[], &[], case.bias(), &mut c));
        assert_same_bits("matmul", &c, &case.chain());
        // Devices have no empty buffers to bind; sizes of zero elsewhere do nothing.
        let one = ctx.buffer_f32(&[7.0]).expect("buffer");
        for empty in [
            shape(0, 1, 1, [false; 2]),
            MatMul {
                batch: 0,
                ..shape(1, 1, 1, [false; 2])
            },
        ] {
            matmul(ctx, &one, &one, None, &one, &empty).expect("nothing to do");
        }
        assert_eq!(ctx.download_f32(&one).expect("download"), [7.0]);
    }
}

#[test]
fn follows_an_f64_reference() {
    for trans in TRANSPOSES {
        let case = Case::new(shape(37, 41, 53, trans), From::Bias, normal);
        assert_close("matmul", &case.run(SMALLEST), &case.exact(), 1e-5, 1e-5);
    }
}

/// Threads that flush subnormals, as those of the CPU device do.
fn flushing_pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .spawn_handler(|thread| {
            std::thread::Builder::new().spawn(|| with_flush(|| thread.run()))?;
            Ok(())
        })
        .build()
        .expect("pool")
}

/// The diagonal of each product, and what it is added to, lie next to 2^-126: a processor that
/// flushes before rounding (AArch64) has to find that out and compute the tile again.
#[test]
fn results_next_to_the_smallest_number_have_the_bits_of_the_chain() {
    let n = 37;
    let (x, y) = pairs_next_to_the_smallest(5, n);
    for from in STARTS {
        let mut case = Case::new(shape(n, n, 2, [false, false]), from, |_, len| {
            vec![0.0; len]
        });
        for i in 0..n {
            case.a[2 * i] = x[i];
            case.b[i] = y[i];
            // The second step moves some of the sums by less than half of 2^-149.
            case.a[2 * i + 1] = if i % 3 == 0 { x[i] * 1e-10 } else { 0.0 };
            case.b[n + i] = -y[i];
        }
        let smallest = f32::MIN_POSITIVE;
        case.bias = (0..n).map(|i| [0.0, smallest, -smallest][i % 3]).collect();
        case.c = (0..n * n)
            .map(|i| [0.0, smallest, -smallest][i % 3])
            .collect();
        let want = case.chain();
        let on_it = want.iter().filter(|c| c.abs() == smallest).count();
        assert!(on_it > n / 3, "{on_it} results are 2^-126");
        for level in simd_levels() {
            let mut c = case.c.clone();
            with_flush(|| cpu::matmul(level, &case.shape, &case.a, &case.b, case.bias(), &mut c));
            assert_same_bits(&format!("{from:?} {level:?}"), &c, &want);
        }
        case.run(SMALLEST);
    }
}

#[test]
fn every_instruction_set_and_thread_count_has_the_bits_of_the_chain() {
    let levels = simd_levels();
    let sizes = [
        (1, 1, 1),
        (1, 96, 7),
        (14, 32, 5),
        (29, 128, 3),
        (31, 48, 9),
        (127, 129, 33),
        (30, 17, 900),
        (150, 520, 40),
        (300, 65, 390),
    ];
    for threads in [1, 3] {
        let pool = flushing_pool(threads);
        for (i, (m, n, k)) in sizes.into_iter().enumerate() {
            for (j, trans) in TRANSPOSES.into_iter().enumerate() {
                let data = if i % 2 == 0 { normal } else { values };
                let case = Case::new(shape(m, n, k, trans), STARTS[(i + j) % 3], data);
                let want = case.chain();
                for &level in &levels {
                    let mut c = case.c.clone();
                    pool.install(|| {
                        cpu::matmul(level, &case.shape, &case.a, &case.b, case.bias(), &mut c);
                    });
                    assert_same_bits(&format!("{:?} {level:?}", case.shape), &c, &want);
                }
            }
        }
    }
}

#[test]
fn wrong_arguments_are_errors() {
    let ctx = &hlx_core::testing::cpu().expect("the CPU device opens");
    let [two, four] = [2, 4].map(|len| ctx.buffer_f32(&vec![1.0; len]).expect("buffer"));
    let s = MatMul::new(2, 2, 2);
    let error = |result: Result<(), KernelError>| result.expect_err("an error").to_string();
    let out = ctx.alloc(4).expect("buffer");
    assert_eq!(
        error(matmul(ctx, &two, &four, None, &out, &s)),
        "matmul: a has 2 elements, expected 4"
    );
    let both = MatMul {
        accumulate: true,
        ..s
    };
    assert!(
        error(matmul(ctx, &four, &four, Some(&two), &out, &both)).contains("bias and accumulate")
    );
    let overlap = MatMul {
        batch: 2,
        stride_c: 3,
        ..s
    };
    assert_eq!(
        error(matmul(ctx, &four, &four, None, &out, &overlap)),
        "matmul: stride_c is 3, expected at least 4"
    );
}

/// Every epilogue, over a buffer shaped as C that it reads or writes.
fn epilogues(extra: &Buffer) -> Vec<Epilogue<'_>> {
    let mut all = vec![Epilogue::Add(extra), Epilogue::Scale(-1.7)];
    for &kind in Activation::ALL {
        all.push(Epilogue::Activation { kind, out: extra });
        all.push(Epilogue::ActivationBackward(kind));
    }
    all
}

/// How a product and its epilogue are launched.
#[derive(Clone, Copy)]
enum Launches {
    One,
    Separate,
    Chosen,
}

/// Runs the product with epilogue `epilogue_idx`: C and the buffer beside it.
fn with_epilogue(
    case: &Case,
    tile: &Tile,
    epilogue_idx: usize,
    launches: Launches,
    (ctx, memory): (&Context, &mut TestMemory),
) -> Result<Vec<Buffer>, KernelError> {
    let s = &case.shape;
    let operands = [&memory.input(ctx, &case.a)?, &memory.input(ctx, &case.b)?];
    let bias = case.bias().map(|bias| memory.input(ctx, bias));
    let bias = bias.transpose()?;
    let c = memory.input(ctx, &case.c)?;
    let extra = memory.input(ctx, &values(5, case.c.len()))?;
    let epilogue = epilogues(&extra)[epilogue_idx];
    check(operands[0], operands[1], bias.as_ref(), &c, s)?;
    epilogue.check(NAME, &c, s)?;
    let run = |c: &Buffer, epilogue| matmul_in(ctx, operands, bias.as_ref(), c, s, tile, epilogue);
    match launches {
        Launches::One => {
            let shader = epilogue::fused(tile).expect("a shader");
            launch(
                ctx,
                operands,
                bias.as_ref(),
                &c,
                s,
                (tile, shader),
                epilogue,
            )?;
        }
        Launches::Separate => {
            epilogue.separately(ctx, &c, s.accumulate, |c| run(c, Epilogue::None))?;
        }
        Launches::Chosen => run(&c, epilogue)?,
    }
    Ok(vec![c, extra])
}

#[test]
fn epilogues_have_the_bits_of_separate_launches_on_every_device() {
    let contexts = crate::testing::contexts();
    let emulated = contexts.iter().any(|ctx| !ctx.native_arithmetic());
    // Devices that emulate the arithmetic run separate launches. As their drivers compile a fused
    // shader for seconds, they have the smallest tile here, and three epilogues in one launch.
    let tiles = if emulated {
        std::slice::from_ref(SMALLEST)
    } else {
        &TILES[..]
    };
    let one = contexts[0].alloc(1).expect("buffer");
    for (i, tile) in tiles.iter().enumerate() {
        for epilogue_idx in 0..epilogues(&one).len() {
            let j = i + epilogue_idx;
            let [whole, other] = [j, j + 1].map(|j| TRANSPOSES[j % 4]);
            let shapes = [
                shape(tile.rows + 4, tile.columns + 8, 2 * tile.k_step, whole),
                shape(33, 35, 17, other),
                MatMul {
                    batch: 3,
                    stride_a: 0,
                    stride_b: 64,
                    ..shape(5, 7, 9, other)
                },
            ];
            // One shape an epilogue and tile: a pipeline takes a GPU's driver 0.2 s.
            let s = shapes[j % 3];
            let from = match STARTS[(j / 3) % 3] {
                From::Stored if epilogues(&one)[epilogue_idx].reads_c() => From::Bias,
                from => from,
            };
            let case = Case::new(s, from, values);
            let name = format!("{s:?}, epilogue {epilogue_idx}");
            let launches = if !emulated || [0, 2, 3].contains(&epilogue_idx) {
                Launches::One
            } else {
                Launches::Chosen
            };
            let got = run_everywhere(&name, |ctx, memory| {
                with_epilogue(&case, tile, epilogue_idx, launches, (ctx, memory))
            });
            let want = run_on(&name, &contexts[0], |ctx, memory| {
                with_epilogue(&case, tile, epilogue_idx, Launches::Separate, (ctx, memory))
            });
            for (got, want) in got.iter().zip(&want) {
                assert_same_bits(&name, got, want);
            }
        }
    }
}

/// It was tanh: every kind but those listed fell through to the last one.
#[test]
fn an_activation_that_is_no_kind_gives_nan() {
    let s = MatMul::new(5, 8, 16);
    let shader = epilogue::fused(SMALLEST).expect("a shader");
    for ctx in hlx_core::testing::vulkan_contexts() {
        let outputs = run_on("matmul", &ctx, |ctx, memory| {
            let (a, b) = (
                memory.input(ctx, &[1.0; 80])?,
                memory.input(ctx, &[0.1; 128])?,
            );
            let (c, out) = (memory.output(ctx, 40)?, memory.output(ctx, 40)?);
            let mut specialization = specialization(&s, SMALLEST, START_ZERO).to_vec();
            specialization.extend([(8, 2), (9, Activation::ALL.len() as u32)]);
            let push = Push {
                m: 5,
                n: 8,
                k: 16,
                stride_a: 0,
                stride_b: 0,
                stride_c: 0,
                batch_first: 0,
                scalar: 0.0,
            };
            let launch = Launch {
                name: "matmul",
                shader,
                specialization: &specialization,
                bindings: &[
                    Binding::Read(&a),
                    Binding::Read(&b),
                    Binding::Read(&b),
                    Binding::Write(&c),
                    Binding::Write(&out),
                ],
                push: push_bytes(&push),
                groups: [1, 1, 1],
            };
            ctx.launch(launch, |_| ())?;
            Ok(vec![c, out])
        });
        assert_close("the product", &outputs[0], &[1.6; 40], 1e-6, 0.0);
        assert!(outputs[1].iter().all(|y| y.is_nan()), "{:?}", outputs[1]);
    }
}

#[test]
fn every_tile_has_an_epilogue() {
    for tile in &TILES {
        assert!(epilogue::fused(tile).is_some(), "{tile:?}");
    }
}

#[test]
fn wrong_epilogues_are_errors() {
    let ctx = &hlx_core::testing::cpu().expect("the CPU device opens");
    let [two, four] = [2, 4].map(|len| ctx.buffer_f32(&vec![1.0; len]).expect("buffer"));
    let out = ctx.alloc(4).expect("buffer");
    let s = MatMul::new(2, 2, 2);
    let error = |c: &Buffer, s: &MatMul, epilogue| {
        let result = matmul_with(ctx, &four, &four, None, c, s, epilogue);
        result.expect_err("an error").to_string()
    };
    let kind = Activation::Gelu;
    for (epilogue, argument) in [
        (Epilogue::Add(&two), "r"),
        (Epilogue::Activation { kind, out: &two }, "out"),
    ] {
        let want = format!("matmul: {argument} has 2 elements, expected 4");
        assert_eq!(error(&out, &s, epilogue), want);
    }
    let on = MatMul {
        accumulate: true,
        ..s
    };
    assert_eq!(
        error(&out, &on, Epilogue::ActivationBackward(kind)),
        "matmul: an activation's input in C and accumulate exclude each other"
    );
    let apart = MatMul {
        batch: 2,
        stride_a: 0,
        stride_b: 0,
        stride_c: 8,
        ..s
    };
    let [c, long] = [12, 12].map(|len| ctx.alloc(len).expect("buffer"));
    assert_eq!(
        error(&c, &apart, Epilogue::Add(&long)),
        "matmul: stride_c is 8, expected 4 with an epilogue"
    );
}
