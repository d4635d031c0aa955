//! Sorts: bits of all devices, a total order, every type, axis and layout, rows and long lines.

use hlx_core::Element;

use super::*;
use crate::testing::{ids, normal, run_everywhere};

/// Places of a line in order: by number, NaN above all, ties by place.
fn places_in_order(line: &[f64], descending: bool) -> Vec<u32> {
    let mut places: Vec<u32> = (0..line.len() as u32).collect();
    places.sort_by(|&a, &b| {
        let (x, y) = (line[a as usize], line[b as usize]);
        let order = match (x.is_nan(), y.is_nan()) {
            (true, true) => std::cmp::Ordering::Equal,
            (nan, other) if nan != other => nan.cmp(&other),
            _ => x.partial_cmp(&y).expect("numbers"),
        };
        if descending { order.reverse() } else { order }
    });
    places
}

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

/// Few different numbers, so that ties abound; zeros of both signs, infinities, NaN of both signs.
fn tied(seed: u64, len: usize) -> Vec<f32> {
    let mut data: Vec<f32> = normal(seed, len)
        .iter()
        .map(|x| (x * 8.0).round())
        .collect();
    for (i, x) in data.iter_mut().enumerate() {
        match i % 61 {
            3 => *x = -0.0,
            4 => *x = 0.0,
            5 => *x = f32::INFINITY,
            6 => *x = f32::NEG_INFINITY,
            7 => *x = f32::NAN,
            8 => *x = -f32::NAN,
            _ => {}
        }
    }
    data
}

#[test]
fn sorting_is_stable_and_total_along_any_axis() {
    let cases: [(&[usize], usize); 14] = [
        (&[1], 0),
        (&[2, 33], 1),
        (&[40, 7], 1),
        (&[5, 31, 3], 1),
        (&[600, 2], 0),
        (&[1, 1100], 1),
        (&[2048], 0),
        (&[1024], 0),
        (&[2, 1025], 1),
        (&[2, 2049], 1),
        (&[4096, 3], 0),
        (&[2, 4096], 1),
        (&[1, 4097], 1),
        (&[9001, 2], 0),
    ];
    for (shape, axis) in cases {
        let data = tied(1, shape.iter().product());
        for descending in [false, true] {
            let got = run_everywhere("sort", |device, memory| {
                let layout = Layout::contiguous(shape)?;
                let buffer = &memory.input(device, &data)?;
                let x = Operand {
                    buffer,
                    layout: &layout,
                };
                let values = memory.output(device, data.len())?;
                let (words, again) = (
                    memory.output(device, data.len())?,
                    memory.output(device, data.len())?,
                );
                let places = words.view_as(DType::U32, data.len())?;
                sort(device, x, axis, descending, &values, &places)?;
                argsort(
                    device,
                    x,
                    axis,
                    descending,
                    &again.view_as(DType::U32, data.len())?,
                )?;
                Ok(vec![values, words, again])
            });
            for line in lines_of(shape, axis) {
                let numbers: Vec<f64> = line.iter().map(|&at| f64::from(data[at])).collect();
                let want = places_in_order(&numbers, descending);
                for (j, &place) in want.iter().enumerate() {
                    let at = line[j];
                    assert_eq!(
                        got[1][at].to_bits(),
                        place,
                        "{shape:?} along {axis}, result {j}"
                    );
                    assert_eq!(got[2][at].to_bits(), place, "argsort");
                    let (value, x) = (got[0][at], data[line[place as usize]]);
                    let same = value.to_bits() == x.to_bits() || value.is_nan() && x.is_nan();
                    assert!(same, "{shape:?} along {axis}: {value}, expected {x}");
                }
            }
        }
    }
}

#[test]
fn topk_is_the_head_of_a_sort() {
    for (shape, axis, k) in [
        (&[3_usize, 50][..], 1, 5),
        (&[50, 3], 0, 50),
        (&[2, 3000, 2], 1, 7),
        (&[4, 9], 1, 0),
        (&[2, 513], 1, 128),
        (&[4096], 0, 1),
        (&[2, 4097], 1, 64),
        (&[20_000, 2], 0, 129),
        (&[140_000], 0, 128),
    ] {
        let data = tied(2, shape.iter().product());
        let mut out = shape.to_vec();
        out[axis] = k;
        let len: usize = out.iter().product();
        for largest in [false, true] {
            let got = run_everywhere("topk", |device, memory| {
                let layout = Layout::contiguous(shape)?;
                let buffer = &memory.input(device, &data)?;
                let x = Operand {
                    buffer,
                    layout: &layout,
                };
                let (values, words) = (memory.output(device, len)?, memory.output(device, len)?);
                let places = words.view_as(DType::U32, len)?;
                topk(device, x, k, axis, largest, &values, &places)?;
                Ok(vec![values, words])
            });
            for (from, to) in lines_of(shape, axis).iter().zip(lines_of(&out, axis)) {
                let numbers: Vec<f64> = from.iter().map(|&at| f64::from(data[at])).collect();
                let want = places_in_order(&numbers, largest);
                for (at, place) in to.into_iter().zip(want) {
                    assert_eq!(got[1][at].to_bits(), place, "{shape:?} along {axis}");
                    let x = data[from[place as usize]];
                    assert!(got[0][at] == x || got[0][at].is_nan() && x.is_nan());
                }
            }
        }
    }
}

#[test]
fn ties_at_the_bound_of_a_selection_go_to_the_lower_places() {
    for (n, k) in [(4096, 100), (9000, 128), (4097, 3)] {
        let data: Vec<f32> = ids(5, n, 2).iter().map(|&bit| bit as f32).collect();
        let got = run_everywhere("topk", |device, memory| {
            let layout = Layout::contiguous(&[n])?;
            let buffer = &memory.input(device, &data)?;
            let x = Operand {
                buffer,
                layout: &layout,
            };
            let (values, words) = (memory.output(device, k)?, memory.output(device, k)?);
            let places = words.view_as(DType::U32, k)?;
            topk(device, x, k, 0, true, &values, &places)?;
            Ok(vec![values, words])
        });
        let ones = (0..n).filter(|&place| data[place] == 1.0);
        for (j, place) in ones.take(k).enumerate() {
            assert_eq!(got[1][j].to_bits(), place as u32, "{k} of {n}, result {j}");
            assert_eq!(got[0][j], 1.0);
        }
    }
}

#[test]
fn integers_and_scattered_layouts_sort_as_their_copies() {
    fn check<T: Element>(of: impl Fn(u32) -> T, number: impl Fn(T) -> f64) {
        // Stored as [30, 400]: transposed, and every second element from the last on.
        let stored = Layout::contiguous(&[30, 400]).expect("a shape");
        let layout = stored.permute(&[1, 0]).expect("a permutation");
        let layout = layout.slice(0, (1, 400, 2)).expect("a slice");
        let layout = layout.flip(0).expect("a dimension");
        let data: Vec<T> = ids(3, 12_000, u32::MAX)
            .iter()
            .map(|&word| of(word))
            .collect();
        for axis in [0, 1] {
            let got = run_everywhere("argsort", |device, memory| {
                let buffer = &device.buffer_of(&data)?;
                let words = memory.output(device, 6000)?;
                let places = words.view_as(DType::U32, 6000)?;
                argsort(
                    device,
                    Operand {
                        buffer,
                        layout: &layout,
                    },
                    axis,
                    false,
                    &places,
                )?;
                Ok(vec![words])
            });
            for line in lines_of(&[200, 30], axis) {
                let of_line = line.iter().map(|&at| layout.place(&[at / 30, at % 30]));
                let numbers: Vec<f64> = of_line.map(|at| number(data[at])).collect();
                for (at, place) in line.iter().zip(places_in_order(&numbers, false)) {
                    assert_eq!(got[0][*at].to_bits(), place, "{} along {axis}", T::DTYPE);
                }
            }
        }
    }
    check(|word| word as i32, f64::from);
    check(|word| word, f64::from);
    check(|word| word as i8, f64::from);
}

#[test]
fn sorted_pairs_keep_the_order_of_equal_keys() {
    for (n, bits) in [(1, 1), (700, 5), (10_000, 9), (10_000, 32)] {
        let bound = u32::MAX >> (32 - bits);
        let keys = ids(4, n, bound.max(1));
        let got = run_everywhere("sorted_pairs", |device, memory| {
            let keys = memory.input_u32(device, &keys)?.view_as(DType::U32, n)?;
            Ok(crate::pairs::sorted_pairs(device, "test", &keys, bits)?.to_vec())
        });
        let mut want: Vec<u32> = (0..n as u32).collect();
        want.sort_by_key(|&place| keys[place as usize]);
        for (j, place) in want.iter().enumerate() {
            assert_eq!(got[1][j].to_bits(), *place, "{n} keys of {bits} bits");
            assert_eq!(got[0][j].to_bits(), keys[*place as usize]);
        }
    }
}

#[test]
fn wrong_arguments_are_named() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let x = device.alloc(6).expect("memory");
    let layout = Layout::contiguous(&[2, 3]).expect("a shape");
    let operand = Operand::new(&x, &layout);
    let places = device.alloc_typed(DType::U32, 6).expect("memory");
    let values = device.alloc(6).expect("memory");
    let error = topk(&device, operand, 4, 1, true, &values, &places).expect_err("k");
    assert_eq!(
        error.to_string(),
        "topk: k is 4, expected at most the 3 elements of axis 1"
    );
    let error = sort(&device, operand, 2, true, &values, &places).expect_err("an axis");
    assert_eq!(
        error.to_string(),
        "sort: axis 2 is out of range for shape [2, 3]"
    );
    let error = argsort(&device, operand, 1, true, &values).expect_err("a type");
    assert_eq!(
        error.to_string(),
        "argsort: indices has dtype f32, expected u32"
    );
}
