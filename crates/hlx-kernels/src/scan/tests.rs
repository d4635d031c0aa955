//! Scans: bits of all devices, the written order, any axis and layout.

use hlx_core::DType;

use super::*;
use crate::layout::Layout;
use crate::testing::{normal, run_everywhere, values};

/// The specification, one statement a sentence.
fn in_order<T: Copy>(line: &[T], start: T, join: fn(T, T) -> T) -> Vec<T> {
    let mut out = Vec::new();
    let mut before = None;
    for piece in line.chunks(4096) {
        let mut inner = start;
        for x in piece {
            inner = join(inner, *x);
            out.push(before.map_or(inner, |before| join(before, inner)));
        }
        before = Some(join(before.unwrap_or(start), inner));
    }
    out
}

/// Shapes and axes: around a piece and a tile, inner, outer and middle axes.
const CASES: [(&[usize], usize); 9] = [
    (&[1], 0),
    (&[70], 0),
    (&[3, 64], 1),
    (&[33, 65], 1),
    (&[2, 9000], 1),
    (&[9000, 3], 0),
    (&[4096, 5], 0),
    (&[5, 40, 7], 1),
    (&[2, 4099, 3], 1),
];

fn lines_of(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    (0..outer * inner)
        .map(|line| {
            let first = line / inner * shape[axis] * inner + line % inner;
            (0..shape[axis]).map(|i| first + i * inner).collect()
        })
        .collect()
}

#[test]
fn running_sums_and_products_have_the_written_order() {
    for (shape, axis) in CASES {
        let data = normal(1, shape.iter().product());
        let factors: Vec<f32> = data.iter().map(|x| 1.0 + x * 1e-2).collect();
        let got = run_everywhere("cumsum", |device, memory| {
            let layout = Layout::contiguous(shape)?;
            let (x, y) = (
                memory.input(device, &data)?,
                memory.input(device, &factors)?,
            );
            let operand = |buffer| Operand {
                buffer,
                layout: &layout,
            };
            let (sums, products) = (
                memory.output(device, data.len())?,
                memory.output(device, data.len())?,
            );
            cumsum(device, operand(&x), axis, &sums)?;
            cumprod(device, operand(&y), axis, &products)?;
            Ok(vec![sums, products])
        });
        for line in lines_of(shape, axis) {
            let of = |data: &[f32]| line.iter().map(|&at| data[at]).collect::<Vec<_>>();
            let sums = in_order(&of(&data), 0.0, |a, b| a + b);
            let products = in_order(&of(&factors), 1.0, |a, b| a * b);
            for (i, &at) in line.iter().enumerate() {
                assert_eq!(
                    got[0][at].to_bits(),
                    sums[i].to_bits(),
                    "{shape:?} along {axis}: {i}"
                );
                assert_eq!(
                    got[1][at].to_bits(),
                    products[i].to_bits(),
                    "{shape:?} along {axis}"
                );
            }
        }
    }
}

#[test]
fn layouts_change_no_bit_and_integers_wrap() {
    let shape = [6, 4100, 5];
    let len = shape.iter().product();
    let data: Vec<u32> = crate::testing::ids(2, 2 * len, u32::MAX);
    let floats = values(2, 2 * len);
    // Stored as [5, 4100, 12]: transposed, reversed, and every second element.
    let layout = Layout::contiguous(&[5, 4100, 12]).expect("a shape");
    let layout = layout.permute(&[2, 1, 0]).expect("a permutation");
    let layout = layout.slice(0, (1, 12, 2)).expect("a slice");
    let layout = layout.flip(1).expect("a dimension");
    let dense = Layout::contiguous(&shape).expect("a shape");
    let places: Vec<usize> = (0..len)
        .map(|i| layout.place(&[i / 20_500, i / 5 % 4100, i % 5]))
        .collect();
    let packed: Vec<f32> = places.iter().map(|&at| floats[at]).collect();
    for axis in 0..3 {
        let got = run_everywhere("cumsum", |device, memory| {
            let x = memory
                .input_u32(device, &data)?
                .view_as(DType::I32, 2 * len)?;
            let y = memory.input(device, &floats)?;
            let z = memory.input(device, &packed)?;
            let words = memory.output(device, len)?;
            let (scattered, straight) = (memory.output(device, len)?, memory.output(device, len)?);
            let integers = words.view_as(DType::I32, len)?;
            cumsum(device, Operand::new(&x, &layout), axis, &integers)?;
            cumsum(device, Operand::new(&y, &layout), axis, &scattered)?;
            cumsum(device, Operand::new(&z, &dense), axis, &straight)?;
            Ok(vec![words, scattered, straight])
        });
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got[1]), bits(&got[2]), "along {axis}");
        let found = bits(&got[0]);
        for line in lines_of(&shape, axis) {
            let terms: Vec<u32> = line.iter().map(|&at| data[places[at]]).collect();
            let want = in_order(&terms, 0, u32::wrapping_add);
            let got: Vec<u32> = line.iter().map(|&at| found[at]).collect();
            assert_eq!(got, want, "along {axis}");
        }
    }
}

#[test]
fn nan_and_infinity_pass_through_and_zero_sums_are_positive() {
    let x = [
        -0.0,
        0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        2.0,
        f32::NEG_INFINITY,
        1.0,
    ];
    let got = run_everywhere("cumsum", |device, memory| {
        let layout = Layout::contiguous(&[8])?;
        let input = memory.input(device, &x)?;
        let out = memory.output(device, 8)?;
        cumsum(device, Operand::new(&input, &layout), 0, &out)?;
        Ok(vec![out])
    });
    assert_eq!(
        got[0][..4].iter().map(|x| x.to_bits()).collect::<Vec<_>>()[..2],
        [0, 0]
    );
    assert_eq!(got[0][2..6], [1.0, 0.0, f32::INFINITY, f32::INFINITY]);
    assert!(got[0][6].is_nan() && got[0][7].is_nan());
}

#[test]
fn wrong_arguments_are_named_and_no_elements_are_no_work() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let (x, y) = (
        device.alloc(6).expect("memory"),
        device.alloc(5).expect("memory"),
    );
    let layout = Layout::contiguous(&[2, 3]).expect("a shape");
    let operand = Operand::new(&x, &layout);
    let message = |axis, out: &Buffer| {
        cumsum(&device, operand, axis, out)
            .expect_err("a wrong argument")
            .to_string()
    };
    assert_eq!(
        message(2, &x),
        "cumsum: axis 2 is out of range for shape [2, 3]"
    );
    assert_eq!(message(1, &y), "cumsum: out has 5 elements, expected 6");
    let empty = Layout::contiguous(&[0, 3]).expect("a shape");
    let nothing = device.alloc(0).expect("memory");
    let operand = Operand::new(&x, &empty);
    cumsum(&device, operand, 0, &nothing).expect("nothing to do");
}
