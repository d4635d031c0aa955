//! Tests of epilogues: their bits are those of separate launches.

use hlx_core::{Launch, push_bytes};

use super::*;
use crate::activation::Activation;
use crate::testing::TestMemory;

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
    (device, memory): (&Device, &mut TestMemory),
) -> Result<Vec<Buffer>> {
    let s = &case.shape;
    let operands = [
        &memory.input(device, &case.a)?,
        &memory.input(device, &case.b)?,
    ];
    let bias = case.bias().map(|bias| memory.input(device, bias));
    let bias = bias.transpose()?;
    let c = memory.input(device, &case.c)?;
    let extra = memory.input(device, &values(5, case.c.len()))?;
    let epilogue = epilogues(&extra)[epilogue_idx];
    let product = FloatProduct {
        bias: bias.as_ref(),
        epilogue,
        ..FloatProduct::new(operands, &c, *s)
    };
    product.check()?;
    epilogue.check(NAME, &c, s)?;
    match launches {
        Launches::One => {
            let tile = Tile::largest(epilogue.form(), tile.size);
            product.launch(device, tile)?;
        }
        Launches::Separate => product.separately(device, |product| product.launch(device, tile))?,
        Launches::Chosen => product.by_tile(device)?,
    }
    Ok(vec![c, extra])
}

#[test]
fn epilogues_have_the_bits_of_separate_launches_on_every_device() {
    let devices = crate::testing::devices();
    let emulated = devices.iter().any(|device| !device.native_arithmetic());
    // Devices that emulate the arithmetic run separate launches. As their drivers compile a fused
    // shader for seconds, they have the smallest tile here, and three epilogues in one launch.
    let with_epilogues = tiles(Form::Epilogue).map(|tile| Tile::largest(Form::Dense, tile.size));
    let with_epilogues = with_epilogues.filter(|tile| !emulated || tile.size == SMALLEST.size);
    let one = devices[0].alloc(1).expect("buffer");
    for (i, tile) in with_epilogues.enumerate() {
        for epilogue_idx in hlx_core::testing::cases(0..epilogues(&one).len(), 2) {
            let j = i + epilogue_idx;
            let [whole, other] = [j, j + 1].map(|j| TRANSPOSES[j % 4]);
            let shapes = [
                shape(tile.size[0] + 4, tile.size[1] + 8, 2 * tile.k_step, whole),
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
            let got = run_everywhere(&name, |device, memory| {
                with_epilogue(&case, tile, epilogue_idx, launches, (device, memory))
            });
            let want = run_on(&name, &devices[0], |device, memory| {
                with_epilogue(
                    &case,
                    tile,
                    epilogue_idx,
                    Launches::Separate,
                    (device, memory),
                )
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
    let shader = Tile::largest(Form::Activation, SMALLEST.size).shader;
    for device in hlx_core::testing::vulkan_devices() {
        let outputs = run_on("matmul", &device, |device, memory| {
            let (a, b) = (
                memory.input(device, &[1.0; 80])?,
                memory.input(device, &[0.1; 128])?,
            );
            let (c, out) = (memory.output(device, 40)?, memory.output(device, 40)?);
            let mut specialization = specialization(&s, SMALLEST, Start::Zero).to_vec();
            specialization.extend([(8, 2), (9, Activation::ALL.len() as u32)]);
            let push = dense_32x64::Push {
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
            device.launch(launch, |_| ())?;
            Ok(vec![c, out])
        });
        assert_close("the product", &outputs[0], &[1.6; 40], 1e-6, 0.0);
        assert!(outputs[1].iter().all(|y| y.is_nan()), "{:?}", outputs[1]);
    }
}

/// An operand that is read by launches side by side is no hazard: the validation layer once took it as
/// written, since another epilogue of the same module writes at its binding.
#[test]
fn products_side_by_side_read_one_operand() {
    let s = MatMul::new(5, 8, 16);
    for device in hlx_core::testing::vulkan_devices() {
        let outputs = run_on("matmul", &device, |device, memory| {
            let (a, b) = (
                memory.input(device, &normal(1, 80))?,
                memory.input(device, &normal(2, 128))?,
            );
            let r = memory.input(device, &normal(3, 40))?;
            let outputs = [memory.output(device, 40)?, memory.output(device, 40)?];
            for c in &outputs {
                let epilogue = Epilogue::Add(&r);
                let tile = Tile::largest(Form::Epilogue, SMALLEST.size);
                FloatProduct {
                    epilogue,
                    ..FloatProduct::new([&a, &b], c, s)
                }
                .launch(device, tile)?;
            }
            Ok(outputs.to_vec())
        });
        assert_same_bits("two products", &outputs[0], &outputs[1]);
    }
}

#[test]
fn every_size_of_a_tile_has_an_epilogue() {
    for tile in tiles(Form::Dense) {
        for form in [Form::Epilogue, Form::Activation] {
            assert_eq!(Tile::largest(form, tile.size).size, tile.size);
        }
    }
}

/// Such a product took a tile of shorter steps with the shader of longer ones.
#[test]
fn a_transposed_a_with_an_epilogue_takes_the_tile_of_its_shader() {
    let steps = [Form::Dense, Form::Epilogue]
        .map(|form| Tile::largest(form, [64, 64]).with_steps(true).k_step);
    assert_eq!(steps, [8, 16]);
}

#[test]
fn wrong_epilogues_are_errors() {
    let device = &hlx_core::testing::cpu().expect("the CPU device opens");
    let [two, four] = [2, 4].map(|len| device.buffer_of(&vec![1.0; len]).expect("buffer"));
    let out = device.alloc(4).expect("buffer");
    let s = MatMul::new(2, 2, 2);
    let error = |c: &Buffer, s: &MatMul, epilogue| {
        let product = FloatProduct {
            epilogue,
            ..FloatProduct::new([&four, &four], c, *s)
        };
        product.run(device).expect_err("an error").to_string()
    };
    let kind = Activation::GELU;
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
    let [c, long] = [12, 12].map(|len| device.alloc(len).expect("buffer"));
    assert_eq!(
        error(&c, &apart, Epilogue::Add(&long)),
        "matmul: stride_c is 8, expected 4 with an epilogue"
    );
}
