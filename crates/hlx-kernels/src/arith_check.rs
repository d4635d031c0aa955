//! HLX's arithmetic on every device against Rust, bit for bit: edge cases and a million inputs a
//! function, through the same launch as any kernel.

use hlx_core::{Binding, Buffer, Context, Launch, arith, groups_1d, push_bytes};

use crate::KernelError;
use crate::testing::{TestMemory, run_everywhere};

shader!(sweep, "../../shaders/spv/arith/sweep.spv");
shader!(random, "../../shaders/spv/arith/random.spv");

/// An operation of the sweep and its Rust twin; its number in the shader is its place.
type Operation = (&'static str, fn(f32, f32, f32) -> f32);

const OPERATIONS: [Operation; 17] = [
    ("fma", arith::fma),
    ("mul", |x, y, _| arith::mul(x, y)),
    ("add", |x, y, _| arith::add(x, y)),
    ("sub", |x, y, _| arith::sub(x, y)),
    ("div", |x, y, _| arith::div(x, y)),
    ("sqrt", |x, _, _| arith::sqrt(x)),
    ("rsqrt", |x, _, _| arith::rsqrt(x)),
    ("exp", |x, _, _| arith::exp(x)),
    ("log", |x, _, _| arith::log(x)),
    ("sigmoid", |x, _, _| arith::sigmoid(x)),
    ("tanh", |x, _, _| arith::tanh(x)),
    ("erf", |x, _, _| arith::erf(x)),
    ("sin", |x, _, _| arith::sin(x)),
    ("cos", |x, _, _| arith::cos(x)),
    ("max", |x, y, _| {
        arith::max(arith::flush(x), arith::flush(y))
    }),
    ("pos0", |x, _, _| arith::pos0(arith::flush(x))),
    ("soft_fma", arith::soft::softfma),
];

fn launch_sweep(
    ctx: &Context,
    op: usize,
    inputs: [&Buffer; 3],
    out: &Buffer,
) -> Result<(), KernelError> {
    let twin = OPERATIONS[op].1;
    let push = sweep::Push {
        count: out.len() as u32,
        op: op as u32,
    };
    let [a, b, c] = inputs;
    let launch = Launch {
        name: "arith_sweep",
        shader: &sweep::SHADER,
        specialization: &[],
        bindings: &[
            Binding::Read(a),
            Binding::Read(b),
            Binding::Read(c),
            Binding::Write(out),
        ],
        push: push_bytes(&push),
        groups: groups_1d(out.len().div_ceil(64)),
    };
    ctx.launch(launch, move |bindings| {
        let ([a, b, c], [out]) = bindings.split::<3, 1>();
        for (index, y) in out.iter_mut().enumerate() {
            *y = twin(a[index], b[index], c[index]);
        }
    })?;
    Ok(())
}

/// Zeros, subnormals, the ends of the range, ones, powers whose products are tiny, infinity, NaN.
const EDGES: [u32; 18] = [
    0x0000_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x0080_0001,
    0x00ff_ffff,
    0x1f80_0000,
    0x1fff_ffff,
    0x2000_0001,
    0x3f00_0000,
    0x3f7f_ffff,
    0x3f80_0000,
    0x3f80_0001,
    0x4b40_0001,
    0x7f00_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7fc0_0000,
];

/// Every triple of edges under every sign, then `n` triples of five kinds.
fn triples(n: u32) -> [Vec<u32>; 3] {
    let mut rows: Vec<[u32; 3]> = Vec::new();
    for a in EDGES {
        for b in EDGES {
            for c in EDGES {
                rows.extend((0..8_u32).map(|signs| {
                    [
                        a | signs << 31,
                        b | (signs >> 1) << 31,
                        c | (signs >> 2) << 31,
                    ]
                }));
            }
        }
    }
    // A significand and sign at random with the given exponent.
    let scaled = |word: u32, exponent: u32| word & 0x807f_ffff | exponent << 23;
    for index in 0..n {
        let [x, y, z, w] = arith::philox4x32([index, 0, 0, 0], [0x0061_7269, 0]);
        rows.push(match index % 5 {
            0 => [x, y, z],
            // Near one, where the functions are used; the third up to 2^28 smaller.
            1 => [
                scaled(x, 120 + w % 16),
                scaled(y, 120 + (w >> 4) % 16),
                scaled(z, 98 + (w >> 8) % 40),
            ],
            // Products and quotients about 2^-126.
            2 => {
                let exponent = 1 + w % 126;
                [
                    scaled(x, exponent),
                    scaled(y, 128 - exponent + (w >> 8) % 3 - 1),
                    scaled(z, (w >> 16) % 4),
                ]
            }
            // Sums that cancel.
            3 => {
                let (a, b) = (scaled(x, 120 + w % 16), scaled(y, 120 + (w >> 4) % 16));
                let product = f32::from_bits(a) * f32::from_bits(b);
                [
                    a,
                    b,
                    (-product).to_bits().wrapping_add(z % 5).wrapping_sub(2),
                ]
            }
            // Short significands: exact ties.
            _ => [
                scaled(x, 125 + w % 4) & 0xffff_c000,
                scaled(y, 125 + (w >> 4) % 4) & 0xffff_c000,
                scaled(z, 124 + (w >> 8) % 28),
            ],
        });
    }
    [0, 1, 2].map(|column| rows.iter().map(|row| row[column]).collect())
}

#[test]
fn every_function_has_the_same_bits_everywhere() {
    let columns = triples(400_000);
    for (op, (name, _)) in OPERATIONS.iter().enumerate() {
        run_everywhere(name, |ctx, mem: &mut TestMemory| {
            let a = mem.input_u32(ctx, &columns[0])?;
            let b = mem.input_u32(ctx, &columns[1])?;
            let c = mem.input_u32(ctx, &columns[2])?;
            let out = mem.output(ctx, columns[0].len())?;
            launch_sweep(ctx, op, [&a, &b, &c], &out)?;
            Ok(vec![out])
        });
    }
}

#[test]
fn random_numbers_have_the_same_bits_everywhere() {
    let count = 100_003;
    run_everywhere("philox", |ctx, mem: &mut TestMemory| {
        let out = mem.output(ctx, 8 * count)?;
        let push = random::Push {
            count: count as u32,
            key_0: 0xdead_beef,
            key_1: 7,
        };
        let launch = Launch {
            name: "arith_random",
            shader: &random::SHADER,
            specialization: &[],
            bindings: &[Binding::Write(&out)],
            push: push_bytes(&push),
            groups: groups_1d(count.div_ceil(64)),
        };
        ctx.launch(launch, move |bindings| {
            let ([], [out]) = bindings.split::<0, 1>();
            for (index, row) in out.chunks_exact_mut(8).enumerate() {
                let words = arith::philox4x32([index as u32, 1, 2, 3], [push.key_0, push.key_1]);
                let [x, y, _, _] = words;
                let (normal_0, normal_1) = arith::normal_pair(x, y);
                for (value, word) in row.iter_mut().zip(words) {
                    *value = f32::from_bits(word);
                }
                row[4..].copy_from_slice(&[
                    arith::uniform(x),
                    arith::uniform(y),
                    normal_0,
                    normal_1,
                ]);
            }
        })?;
        Ok(vec![out])
    });
}
