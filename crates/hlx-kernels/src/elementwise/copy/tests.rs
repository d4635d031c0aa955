//! Tests of copies: every pair of types, and layouts against their places.

use half::{bf16, f16};
use hlx_core::digest::canonical_bits;
use hlx_core::{Bool, Buffer, Element};

use super::*;
use crate::testing::{elements_of, run_everywhere};

/// Values at the edges of every conversion.
fn edges() -> Vec<f32> {
    let mut values = vec![
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ];
    for magnitude in [
        0.25,
        0.5,
        0.999,
        1.0,
        1.5,
        2.5,
        126.9,
        127.0,
        127.5,
        128.0,
        129.0,
        254.5,
        255.0,
        255.9,
        256.0,
        300.0,
        2048.5,
        2049.0,
        2051.0,
        65_503.0,
        65_504.0,
        65_519.0,
        65_520.0,
        65_536.0,
        16_777_217.0,
        2_147_483_520.0,
        2_147_483_648.0,
        4_294_967_040.0,
        4_294_967_296.0,
        1e20,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-8,
        2.9802322e-8,
        2.9802326e-8,
        5.9604645e-8,
        8.940697e-8,
        6.097_555e-5,
        6.1035156e-5,
        6.1020255e-5,
        1.003_906_3,
        1.011_718_8,
        1.004_882_8,
    ] {
        values.extend([magnitude, -magnitude]);
    }
    values
}

fn integers() -> Vec<i32> {
    let mut values = vec![0, i32::MIN, i32::MIN + 1, i32::MAX, i32::MAX - 1];
    for magnitude in [
        1,
        127,
        128,
        129,
        255,
        256,
        257,
        65_535,
        65_536,
        16_777_215,
        16_777_216,
        16_777_217,
        16_777_219,
        33_554_434,
        33_554_435,
        33_554_438,
        1_073_741_856,
        2_147_483_584,
        2_147_483_585,
    ] {
        values.extend([magnitude, -magnitude]);
    }
    values
}

/// Copies `data` to every type and compares with what `want` computes of an element.
fn check_conversions<T: Element>(data: &[T], want: impl Fn(T, DType) -> u32) {
    let n = data.len();
    let got = run_everywhere("copy_strided", |device, mem| {
        let x = mem.input_of(device, data)?;
        let layout = Layout::contiguous(&[n])?;
        let mut outputs = Vec::new();
        for dtype in DType::ALL {
            let out = mem.output_of(device, dtype, n)?;
            copy_strided(device, of(&x, &layout), &out)?;
            outputs.push(out);
        }
        Ok(outputs)
    });
    for (dtype, words) in DType::ALL.into_iter().zip(&got) {
        let bits: Vec<u32> = match dtype.size() {
            4 if dtype == DType::F32 => words.iter().map(|&x| canonical_bits(x)).collect(),
            4 => elements_of::<u32>(words, n),
            2 => widened::<u16>(words, n),
            _ => widened::<u8>(words, n),
        };
        for (at, &value) in data.iter().enumerate() {
            let value = value.stored();
            let expected = want(value, dtype);
            assert_eq!(
                bits[at], expected,
                "{value:?} as {dtype} is {:#x}, expected {expected:#x}",
                bits[at]
            );
        }
        let (per_word, last) = (
            dtype.per_word(),
            words.last().map_or(0, |word| word.to_bits()),
        );
        if !n.is_multiple_of(per_word) {
            assert_eq!(
                last >> (8 * dtype.size() * (n % per_word)),
                0,
                "{dtype}: spare bytes"
            );
        }
    }
}

#[test]
fn every_type_converts_to_every_type_as_rust_does() {
    let floats = edges();
    check_conversions(&floats, of_float);
    let halves: Vec<f16> = floats.iter().map(|&x| f16::from_f32(x)).collect();
    check_conversions(&halves, |x, to| match to {
        DType::F16 => u32::from(x.to_bits()),
        _ => of_float(x.to_f32(), to),
    });
    let brains: Vec<bf16> = floats.iter().map(|&x| bf16::from_f32(x)).collect();
    check_conversions(&brains, |x, to| match to {
        DType::BF16 => u32::from(x.to_bits()),
        _ => of_float(x.to_f32(), to),
    });
    let signed = integers();
    check_conversions(&signed, |x, to| of_integer(x.into(), to));
    let unsigned: Vec<u32> = signed.iter().map(|&x| x as u32).collect();
    check_conversions(&unsigned, |x, to| of_integer(x.into(), to));
    check_conversions(
        &(0..=255).map(|x: u8| x as i8).collect::<Vec<_>>(),
        |x, to| of_integer(x.into(), to),
    );
    check_conversions(&(0..=254).collect::<Vec<u8>>(), |x, to| {
        of_integer(x.into(), to)
    });
    check_conversions(&[true, false, true].map(Bool::from), |x, to| {
        of_integer(u8::from(bool::from(x)).into(), to)
    });
}

/// All f16 and bf16 values, and the f32 values between f16 neighbours.
#[test]
fn sixteen_bit_floats_are_read_exactly_and_rounded_to_nearest_even() {
    let bits: Vec<u16> = (0..=u16::MAX).step_by(7).collect();
    let halves: Vec<f16> = bits.iter().map(|&bits| f16::from_bits(bits)).collect();
    let brains: Vec<bf16> = bits.iter().map(|&bits| bf16::from_bits(bits)).collect();
    let between: Vec<f32> = halves
        .iter()
        .flat_map(|half| {
            let next = f16::from_bits(half.to_bits() ^ 1).to_f32();
            let middle = (half.to_f32() + next) * 0.5;
            [middle, f32::from_bits(middle.to_bits() ^ 1)]
        })
        .collect();
    let got = run_everywhere("copy_strided", |device, mem| {
        let inputs = [
            (mem.input_of(device, &halves)?, DType::F32),
            (mem.input_of(device, &brains)?, DType::F32),
            (mem.input_of(device, &between)?, DType::F16),
            (mem.input_of(device, &between)?, DType::BF16),
        ];
        let mut outputs = Vec::new();
        for (x, dtype) in inputs {
            let layout = Layout::contiguous(&[x.len()])?;
            let out = mem.output_of(device, dtype, x.len())?;
            copy_strided(device, of(&x, &layout), &out)?;
            outputs.push(out);
        }
        Ok(outputs)
    });
    for (at, half) in halves.iter().enumerate() {
        assert_eq!(
            canonical_bits(got[0][at]),
            of_float(half.to_f32(), DType::F32),
            "{half:?}"
        );
        let brain = brains[at].stored();
        assert_eq!(
            canonical_bits(got[1][at]),
            of_float(brain.to_f32(), DType::F32),
            "{brain:?}"
        );
    }
    let rounded = elements_of::<f16>(&got[2], between.len());
    let brains = elements_of::<bf16>(&got[3], between.len());
    for (at, &x) in between.iter().enumerate() {
        let x = x.stored();
        assert_eq!(
            u32::from(rounded[at].to_bits()),
            of_float(x, DType::F16),
            "{x:e}"
        );
        assert_eq!(
            u32::from(brains[at].to_bits()),
            of_float(x, DType::BF16),
            "{x:e}"
        );
    }
}

type Movement = fn(&Layout) -> Result<Layout, String>;

/// Views of an array [6, 20, 9].
const VIEWS: [(&str, Movement); 12] = [
    ("whole", |x| Ok(x.clone())),
    ("transposed", |x| x.permute(&[0, 2, 1])),
    ("reversed", |x| x.permute(&[2, 1, 0])),
    ("outer swapped", |x| x.permute(&[1, 0, 2])),
    ("aligned slice", |x| x.slice(1, (4, 12, 1))),
    ("stepped slice", |x| x.slice(2, (1, 9, 3))),
    ("flipped", |x| x.flip(1)?.flip(2)),
    ("column", |x| x.slice(2, (3, 4, 1))),
    ("diagonal", |x| x.diagonal(-1, 0, 1)),
    ("one element", |x| {
        x.select(0, 1)?.select(0, 2)?.select(0, 3)
    }),
    ("rows of a slice", |x| {
        x.slice(2, (0, 8, 1))?.permute(&[1, 0, 2])
    }),
    ("nothing", |x| x.slice(1, (5, 5, 1))),
];

/// A view as an operand.
fn of<'a>(buffer: &'a Buffer, layout: &'a Layout) -> Operand<'a> {
    Operand { buffer, layout }
}

/// The places of a layout's elements in row-major order.
fn places(layout: &Layout) -> Vec<usize> {
    let index = |mut linear: usize| {
        let mut index = vec![0; layout.rank()];
        for (slot, &extent) in index.iter_mut().zip(layout.shape()).rev() {
            *slot = linear % extent;
            linear /= extent;
        }
        index
    };
    (0..layout.n_elements())
        .map(|linear| layout.place(&index(linear)))
        .collect()
}

fn check_views<T: Element>(value: impl Fn(usize) -> T) {
    let whole = Layout::contiguous(&[6, 20, 9]).expect("a shape");
    let data: Vec<T> = (0..whole.n_elements()).map(&value).collect();
    for (name, movement) in VIEWS {
        let view = movement(&whole).expect("a view");
        let n = view.n_elements();
        let got = run_everywhere(name, |device, mem| {
            let (x, source) = (
                mem.input_of(device, &data)?,
                mem.input_of(device, &data[..n])?,
            );
            let out = mem.output_of(device, T::DTYPE, n)?;
            copy_strided(device, of(&x, &view), &out)?;
            let target = mem.input_of(device, &vec![value(999); data.len()])?;
            let dense = Layout::contiguous(view.shape())?;
            assign_strided(device, of(&source, &dense), of(&target, &view))?;
            Ok(vec![out, target])
        });
        let places = places(&view);
        let copied = elements_of::<T>(&got[0], n);
        let expected: Vec<T> = places.iter().map(|&place| data[place]).collect();
        assert_eq!(copied, expected, "copy, {name}, {}", T::DTYPE);
        let mut expected = vec![value(999); data.len()];
        for (&place, &x) in places.iter().zip(&data) {
            expected[place] = x;
        }
        let assigned = elements_of::<T>(&got[1], data.len());
        assert_eq!(assigned, expected, "assign, {name}, {}", T::DTYPE);
    }
}

#[test]
fn views_of_words_are_copied_and_assigned() {
    check_views(|i| i as f32 - 0.5);
}

#[test]
fn views_of_two_bytes_are_copied_and_assigned() {
    check_views(|i| f16::from_bits(i as u16));
}

#[test]
fn views_of_bytes_are_copied_and_assigned() {
    check_views(|i| (i * 37 % 251) as u8);
}

#[test]
fn broadcast_operands_and_other_types_are_assigned() {
    let got = run_everywhere("assign_strided", |device, mem| {
        let row = mem.input_of(device, &[1_i32, -2, 300])?;
        let target = mem.input_of(device, &[7_u8; 20])?;
        let whole = Layout::contiguous(&[4, 5])?;
        let view = whole
            .slice(1, (1, 4, 1))
            .and_then(|view| view.slice(0, (0, 4, 2)));
        let view = view.expect("a view");
        let x = Layout::contiguous(&[3])?;
        assign_strided(device, of(&row, &x), of(&target, &view))?;
        Ok(vec![target])
    });
    let mut expected = [7_u8; 20];
    for row in [0, 2] {
        expected[5 * row + 1..5 * row + 4].copy_from_slice(&[1, 254, 44]);
    }
    assert_eq!(elements_of::<u8>(&got[0], 20), expected);
}

/// Tiles, with a batch on both sides of both dimensions.
#[test]
fn long_dimensions_are_transposed_in_tiles() {
    for (shape, order) in [
        (&[70, 33][..], &[1, 0][..]),
        (&[3, 40, 17], &[0, 2, 1]),
        (&[20, 3, 33], &[2, 1, 0]),
        (&[2, 35, 3, 18], &[3, 0, 2, 1]),
    ] {
        let whole = Layout::contiguous(shape).expect("a shape");
        let view = whole.permute(order).expect("a permutation");
        let data: Vec<f32> = (0..whole.n_elements()).map(|i| i as f32).collect();
        let got = run_everywhere("tiles", |device, mem| {
            let x = mem.input(device, &data)?;
            let out = mem.output(device, data.len())?;
            copy_strided(device, of(&x, &view), &out)?;
            Ok(vec![out])
        });
        let expected: Vec<f32> = places(&view).iter().map(|&place| data[place]).collect();
        assert_eq!(got[0], expected, "{shape:?} as {order:?}");
    }
}

/// A kernel copies them, not the device's queue: whole vectors and single words keep all bits.
#[test]
fn long_contiguous_buffers_keep_their_bits() {
    for n in [
        crate::elementwise::moves::LONG,
        crate::elementwise::moves::LONG + 3,
    ] {
        let words: Vec<u32> = (0..n as u32).map(|x| x.wrapping_mul(0x9e37_79b9)).collect();
        let got = run_everywhere("copy_strided", |device, mem| {
            let x = mem.input_of(device, &words)?;
            let out = mem.output_of(device, DType::U32, n)?;
            copy_strided(device, of(&x, &Layout::contiguous(&[n])?), &out)?;
            Ok(vec![out])
        });
        let found = got[0].iter().map(|x| x.to_bits());
        assert!(found.eq(words.iter().copied()), "{n} words");
    }
}

#[test]
fn operands_that_cannot_be_copied_are_refused_in_one_line() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let x = device.alloc(6).expect("memory");
    let layout = Layout::contiguous(&[2, 3]).expect("a shape");
    let message = |result: Result<()>| result.expect_err("refused").to_string();
    let short = device.alloc(5).expect("memory");
    assert_eq!(
        message(copy_strided(&device, of(&x, &layout), &short)),
        "copy_strided: out has 5 elements, expected 6"
    );
    assert_eq!(
        message(copy_strided(&device, of(&short, &layout), &x)),
        "copy_strided: x has an element at place 5, its buffer has 5"
    );
    let repeated = Layout::contiguous(&[3]).map(|row| row.expand(&[2, 3]).expect("rows"));
    let repeated = repeated.expect("a layout");
    assert_eq!(
        message(assign_strided(
            &device,
            of(&x, &layout),
            of(&short, &repeated)
        )),
        "assign_strided: out is [2, 3] by [0, 1] from 0, expected elements that do not overlap"
    );
    let row = Layout::contiguous(&[3]).expect("a shape");
    assert_eq!(
        message(assign_strided(&device, of(&x, &layout), of(&short, &row))),
        "assign_strided: x has shape [2, 3], expected one that broadcasts to [3]"
    );
}

/// What Rust's `as` makes of a float, and nearest even for the small floats.
fn of_float(x: f32, to: DType) -> u32 {
    let canonical = |bits: u16, nan: u16| u32::from(if x.is_nan() { nan } else { bits });
    match to {
        DType::F32 => canonical_bits(x),
        DType::F16 => canonical(f16::from_f32(x).to_bits(), 0x7e00),
        DType::BF16 => canonical(bf16::from_f32(x).to_bits(), 0x7fc0),
        DType::I32 => x as i32 as u32,
        DType::U32 => x as u32,
        DType::I8 => u32::from(x as i8 as u8),
        DType::U8 => u32::from(x as u8),
        DType::Bool => u32::from(x != 0.0),
    }
}

fn of_integer(x: i64, to: DType) -> u32 {
    let float = x as f32;
    match to {
        DType::F32 => float.to_bits(),
        DType::F16 => f16::from_f32(float).to_bits().into(),
        DType::BF16 => bf16::from_f32(float).to_bits().into(),
        DType::I32 | DType::U32 => x as u32,
        DType::I8 | DType::U8 => u32::from(x as u8),
        DType::Bool => u32::from(x != 0),
    }
}

/// The bits of elements of one or two bytes.
fn widened<T: bytemuck::Pod + Into<u32>>(words: &[f32], n: usize) -> Vec<u32> {
    bytemuck::cast_slice::<f32, T>(words)[..n]
        .iter()
        .map(|&x| x.into())
        .collect()
}
