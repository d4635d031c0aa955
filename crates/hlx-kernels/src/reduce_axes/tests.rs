//! Reductions over any axes: bits of all devices, the written order, exact references, every type.

use hlx_core::{Bool, DType, Device, Element};

use super::*;
use crate::layout::Layout;
use crate::reduce;
use crate::testing::{TestMemory, normal, run_everywhere, values};

/// The terms of every result in row-major order of the reduced axes.
fn terms_of(layout: &Layout, axes: &[usize]) -> Vec<Vec<usize>> {
    let shape = layout.shape();
    let count = |chosen: &dyn Fn(usize) -> bool| -> Vec<Vec<usize>> {
        let mut indices = vec![vec![0; shape.len()]];
        for axis in (0..shape.len()).filter(|&axis| chosen(axis)) {
            let longer = indices.iter().flat_map(|index| {
                (0..shape[axis]).map(move |i| {
                    let mut index = index.clone();
                    index[axis] = i;
                    index
                })
            });
            indices = longer.collect();
        }
        indices
    };
    let reduced = count(&|axis| axes.contains(&axis));
    let sum =
        |a: &[usize], b: &[usize]| -> Vec<usize> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
    count(&|axis| !axes.contains(&axis))
        .iter()
        .map(|remaining| {
            reduced
                .iter()
                .map(|r| layout.place(&sum(remaining, r)))
                .collect()
        })
        .collect()
}

/// The specification of a float reduction, one statement a sentence.
fn in_order(terms: &[f32], start: f32, join: fn(f32, f32) -> f32) -> f32 {
    let of_piece = |piece: &[f32]| {
        let mut lanes = [start; 128];
        for (i, x) in piece.iter().enumerate() {
            lanes[i % 128] = join(lanes[i % 128], *x);
        }
        for distance in [64, 32, 16, 8, 4, 2, 1] {
            for lane in 0..distance {
                lanes[lane] = join(lanes[lane], lanes[lane + distance]);
            }
        }
        lanes[0]
    };
    let totals: Vec<f32> = terms.chunks(4096).map(of_piece).collect();
    match totals[..] {
        [total] => total,
        _ => in_order(&totals, start, join),
    }
}

/// Shapes and axes: inner, outer, mixed, all, none; short, around a piece, and several pieces.
fn cases() -> Vec<(Vec<usize>, Vec<usize>)> {
    let case = |shape: &[usize], axes: &[usize]| (shape.to_vec(), axes.to_vec());
    vec![
        case(&[7], &[0]),
        case(&[1], &[0]),
        case(&[3, 1, 5], &[]),
        case(&[], &[]),
        case(&[4097], &[0]),
        case(&[12_345, 2], &[0]),
        case(&[2, 12_345], &[1]),
        case(&[9000, 33], &[0]),
        case(&[100, 37], &[0]),
        case(&[37, 100], &[1]),
        case(&[5, 3, 31], &[0, 2]),
        case(&[5, 3, 31], &[1]),
        case(&[3, 130, 2, 40], &[1, 3]),
        case(&[2, 3, 4, 5, 6], &[0, 2, 4]),
        case(&[600, 2], &[1]),
    ]
}

/// A layout with this shape, stored in this order of dimensions, each second element skipped and
/// one dimension reversed: nothing is contiguous.
fn scattered(shape: &[usize]) -> (Layout, usize) {
    let mut doubled: Vec<usize> = shape.iter().rev().copied().collect();
    if let Some(extent) = doubled.last_mut() {
        *extent = 2 * *extent + 1;
    }
    let mut layout = Layout::contiguous(&doubled).expect("a shape");
    let len = layout.n_elements();
    if let Some(&first) = shape.first() {
        let last = doubled.len() - 1;
        layout = layout.slice(last, (1, 2 * first + 1, 2)).expect("a slice");
        layout = layout.flip(0).expect("a dimension");
    }
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    (layout.permute(&order).expect("a permutation"), len)
}

fn reduced(
    device: &Device,
    memory: &mut TestMemory,
    reduction: Reduction,
    x: &Buffer,
    layout: &Layout,
    axes: &[usize],
) -> Result<Buffer, KernelError> {
    let remaining = layout.shape().iter().enumerate();
    let remaining = remaining.filter(|(axis, _)| !axes.contains(axis));
    let len = remaining.map(|(_, extent)| extent).product();
    let dtype = reduction.output_dtype(x.dtype());
    let words = memory.output(device, dtype.words(len))?;
    let out = words.view_as(dtype, len)?;
    reduce(device, reduction, Operand { buffer: x, layout }, axes, &out)?;
    Ok(words)
}

#[test]
fn float_sums_and_products_have_the_written_order_in_any_layout() {
    for (shape, axes) in cases() {
        for (layout, len) in [
            (
                Layout::contiguous(&shape).expect("a shape"),
                shape.iter().product(),
            ),
            scattered(&shape),
        ] {
            let sums = normal(3, len);
            // Products of a few thousand terms stay in range.
            let factors: Vec<f32> = sums.iter().map(|x| 1.0 + x * 1e-2).collect();
            let got = run_everywhere("reduce", |device, memory| {
                let x = memory.input(device, &sums)?;
                let y = memory.input(device, &factors)?;
                let sum = reduced(device, memory, Reduction::Sum, &x, &layout, &axes)?;
                let squares = reduced(device, memory, Reduction::SumOfSquares, &x, &layout, &axes)?;
                let product = reduced(device, memory, Reduction::Prod, &y, &layout, &axes)?;
                Ok(vec![sum, squares, product])
            });
            for (k, places) in terms_of(&layout, &axes).iter().enumerate() {
                let of = |data: &[f32]| places.iter().map(|&at| data[at]).collect::<Vec<_>>();
                let terms = of(&sums);
                let squares: Vec<f32> = terms.iter().map(|x| x * x).collect();
                let want = [
                    in_order(&terms, 0.0, |a, b| a + b),
                    in_order(&squares, 0.0, |a, b| a + b),
                    in_order(&of(&factors), 1.0, |a, b| a * b),
                ];
                for (found, want) in got.iter().zip(want) {
                    let found = found[k];
                    assert_eq!(
                        found.to_bits(),
                        want.to_bits(),
                        "{shape:?} over {axes:?}, result {k}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_over_all_axes_have_the_bits_of_a_flat_sum() {
    for n in [1, 4095, 4096, 300_007] {
        let data = values(4, n);
        let got = run_everywhere("sum", |device, memory| {
            let x = memory.input(device, &data)?;
            let flat = memory.output(device, 1)?;
            reduce::sum(device, &x, &flat)?;
            let layout = Layout::contiguous(&[n])?;
            let total = reduced(device, memory, Reduction::Sum, &x, &layout, &[0])?;
            Ok(vec![flat, total])
        });
        assert_eq!(got[0][0].to_bits(), got[1][0].to_bits(), "{n} elements");
    }
}

#[test]
fn sums_over_outer_axes_have_the_bits_of_the_transpose_over_inner_ones() {
    for (rows, columns) in [(5000, 40), (130, 300), (4096, 3), (8, 1000)] {
        let data = values(5, rows * columns);
        let transposed: Vec<f32> = (0..rows * columns)
            .map(|i| data[i % rows * columns + i / rows])
            .collect();
        let got = run_everywhere("sum", |device, memory| {
            let (x, y) = (
                memory.input(device, &data)?,
                memory.input(device, &transposed)?,
            );
            let outer = Layout::contiguous(&[rows, columns])?;
            let inner = Layout::contiguous(&[columns, rows])?;
            Ok(vec![
                reduced(device, memory, Reduction::Sum, &x, &outer, &[0])?,
                reduced(device, memory, Reduction::Sum, &y, &inner, &[1])?,
            ])
        });
        for (outer, inner) in got[0].iter().zip(&got[1]) {
            assert_eq!(outer.to_bits(), inner.to_bits(), "{rows} x {columns}");
        }
    }
}

#[test]
fn extremes_and_their_places_follow_the_written_rules() {
    for (shape, axes) in cases() {
        let (layout, len) = scattered(&shape);
        let mut data: Vec<f32> = normal(6, len).iter().map(|x| (x * 4.0).round()).collect();
        // Ties everywhere, zeros of both signs, infinities, and NaN in few results.
        for (i, x) in data.iter_mut().enumerate() {
            match i % 997 {
                13 => *x = -0.0,
                14 => *x = 0.0,
                15 => *x = f32::INFINITY,
                16 => *x = f32::NEG_INFINITY,
                500 | 600 => *x = if i % 2 == 0 { f32::NAN } else { -f32::NAN },
                _ => {}
            }
        }
        let got = run_everywhere("extremes", |device, memory| {
            let x = memory.input(device, &data)?;
            [
                Reduction::Max,
                Reduction::Min,
                Reduction::ArgMax,
                Reduction::ArgMin,
            ]
            .into_iter()
            .map(|reduction| reduced(device, memory, reduction, &x, &layout, &axes))
            .collect()
        });
        for (k, places) in terms_of(&layout, &axes).iter().enumerate() {
            let terms: Vec<f32> = places.iter().map(|&at| data[at]).collect();
            let first_nan = terms.iter().position(|x| x.is_nan());
            for (value, place, sign) in [(0, 2, 1.0), (1, 3, -1.0)] {
                let largest = terms.iter().fold(f32::NEG_INFINITY, |m, x| m.max(sign * x));
                let first = terms.iter().position(|x| sign * x == largest);
                let found = got[value][k];
                match first_nan {
                    Some(_) => assert!(found.is_nan(), "{shape:?} over {axes:?}"),
                    None => assert_eq!(found.to_bits(), (sign * largest + 0.0).to_bits()),
                }
                let want = first_nan.or(first).expect("a term");
                assert_eq!(
                    got[place][k].to_bits(),
                    want as u32,
                    "{shape:?} over {axes:?}"
                );
            }
        }
    }
}

fn integers<T: Element>(
    device: &Device,
    memory: &mut TestMemory,
    data: &[T],
    layout: &Layout,
    axes: &[usize],
) -> Result<Vec<Buffer>, KernelError> {
    let x = device.buffer_of(data)?;
    [
        Reduction::Sum,
        Reduction::Prod,
        Reduction::SumOfSquares,
        Reduction::Max,
        Reduction::Min,
        Reduction::ArgMax,
        Reduction::ArgMin,
        Reduction::Any,
        Reduction::All,
    ]
    .into_iter()
    .map(|reduction| reduced(device, memory, reduction, &x, layout, axes))
    .collect()
}

/// The same reductions in i64, wrapped to 32 bits; bools as bytes of words.
fn integers_in_i64(data: &[i64], layout: &Layout, axes: &[usize]) -> Vec<Vec<u32>> {
    let mut want = vec![Vec::new(); 9];
    for places in terms_of(layout, axes) {
        let terms: Vec<i64> = places.iter().map(|&at| data[at]).collect();
        let wrapped = |start: i64, join: fn(i64, i64) -> i64| {
            terms
                .iter()
                .fold(start, |a, b| i64::from(join(a, *b) as u32)) as u32
        };
        let largest = *terms.iter().max().expect("a term");
        let smallest = *terms.iter().min().expect("a term");
        let place = |value| terms.iter().position(|x| *x == value).expect("a place") as u32;
        let results = [
            wrapped(0, |a, b| a.wrapping_add(b)),
            wrapped(1, |a, b| a.wrapping_mul(b)),
            wrapped(0, |a, b| a.wrapping_add(b.wrapping_mul(b))),
            largest as u32,
            smallest as u32,
            place(largest),
            place(smallest),
            u32::from(terms.iter().any(|x| *x != 0)),
            u32::from(terms.iter().all(|x| *x != 0)),
        ];
        want.iter_mut()
            .zip(results)
            .for_each(|(want, result)| want.push(result));
    }
    for bools in &mut want[7..] {
        let words = bools
            .chunks(4)
            .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | byte));
        *bools = words.collect();
    }
    want
}

#[test]
fn integers_of_every_type_reduce_exactly() {
    fn check<T: Element>(of: impl Fn(u32) -> T, value: impl Fn(T) -> i64) {
        let shapes = [(vec![9000, 5], vec![0]), (vec![6, 9, 7], vec![0, 2])];
        // Narrow types differ in the first sweep's loads alone.
        for (shape, axes) in shapes.into_iter().skip(usize::from(T::DTYPE.size() == 1)) {
            let (layout, len) = scattered(&shape);
            let data: Vec<T> = crate::testing::ids(7, len, u32::MAX)
                .iter()
                .map(|&word| of(word))
                .collect();
            let values: Vec<i64> = data.iter().map(|x| value(*x)).collect();
            let got = run_everywhere("integers", |device, memory| {
                integers(device, memory, &data, &layout, &axes)
            });
            let want = integers_in_i64(&values, &layout, &axes);
            for (reduction, (got, want)) in got.iter().zip(&want).enumerate() {
                let got: Vec<u32> = got.iter().map(|x| x.to_bits()).collect();
                assert_eq!(
                    &got,
                    want,
                    "{} {shape:?} over {axes:?}: {reduction}",
                    T::DTYPE
                );
            }
        }
    }
    check(|word| word as i32, i64::from);
    check(|word| word, i64::from);
    check(|word| word as i8, i64::from);
    check(|word| word as u8, i64::from);
    check(
        |word| Bool::from(word % 16 != 0),
        |x| i64::from(bool::from(x)),
    );
}

#[test]
fn half_floats_are_widened_exactly() {
    let words: Vec<u32> = crate::testing::ids(8, 3000, u32::MAX);
    // Finite values of moderate size, subnormals of f16 among them.
    let halves: Vec<u16> = words.iter().map(|word| (*word as u16) & 0xbfff).collect();
    let layout = Layout::contiguous(&[60, 100]).expect("a shape");
    for dtype in [DType::F16, DType::BF16] {
        let packed: Vec<u32> = halves
            .chunks(2)
            .map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16)
            .collect();
        let packed: Vec<u32> = packed.iter().chain(&packed).copied().collect();
        let mut wide = vec![0; 6000];
        crate::element::gather(dtype, &packed, 0, 1, &mut wide);
        let wide: Vec<f32> = wide.iter().map(|bits| f32::from_bits(*bits)).collect();
        for axes in [[0], [1]] {
            let got = run_everywhere("half", |device, memory| {
                let x = memory.input_u32(device, &packed)?.view_as(dtype, 6000)?;
                let y = memory.input(device, &wide)?;
                let mut outputs = Vec::new();
                for reduction in [Reduction::Sum, Reduction::Max, Reduction::ArgMin] {
                    for x in [&x, &y] {
                        outputs.push(reduced(device, memory, reduction, x, &layout, &axes)?);
                    }
                }
                Ok(outputs)
            });
            for pair in got.chunks(2) {
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&pair[0]), bits(&pair[1]), "{dtype} over {axes:?}");
            }
        }
    }
}

#[test]
fn any_and_all_take_nan_for_true_and_both_zeros_for_false() {
    let data = [
        0.0,
        -0.0,
        f32::NAN,
        0.0,
        f32::NAN,
        1.0,
        -0.0,
        -0.0,
        2.0,
        3.0,
    ];
    let got = run_everywhere("any", |device, memory| {
        let x = memory.input(device, &data)?;
        let layout = Layout::contiguous(&[5, 2])?;
        Ok(vec![
            reduced(device, memory, Reduction::Any, &x, &layout, &[1])?,
            reduced(device, memory, Reduction::All, &x, &layout, &[1])?,
            reduced(device, memory, Reduction::All, &x, &layout, &[0, 1])?,
        ])
    });
    let bytes = |x: &[f32]| -> Vec<u8> { bytemuck::cast_slice(x).to_vec() };
    assert_eq!(bytes(&got[0]), [0, 1, 1, 0, 1, 0, 0, 0]);
    assert_eq!(bytes(&got[1]), [0, 0, 1, 0, 1, 0, 0, 0]);
    assert_eq!(bytes(&got[2]), [0; 4]);
}

#[test]
fn results_of_no_terms_are_the_identity_or_one_clear_error() {
    let got = run_everywhere("empty", |device, memory| {
        let x = device.alloc(0)?;
        let layout = Layout::contiguous(&[5, 0])?;
        let mut outputs = Vec::new();
        for reduction in [
            Reduction::Sum,
            Reduction::Prod,
            Reduction::Any,
            Reduction::All,
        ] {
            outputs.push(reduced(device, memory, reduction, &x, &layout, &[1])?);
        }
        // No results: nothing to do, and no error.
        let none = device.alloc_typed(DType::U32, 0)?;
        let operand = Operand::new(&x, &layout);
        reduce(device, Reduction::ArgMax, operand, &[0], &none)?;
        Ok(outputs)
    });
    let bytes = |x: &[f32]| -> Vec<u8> { bytemuck::cast_slice(x).to_vec() };
    assert_eq!(got[0], [0.0; 5]);
    assert_eq!(got[1], [1.0; 5]);
    assert_eq!(bytes(&got[2]), [0; 8]);
    assert_eq!(bytes(&got[3]), [1, 1, 1, 1, 1, 0, 0, 0]);

    let device = hlx_core::testing::cpu().expect("the CPU device");
    let (x, out) = (
        device.alloc(0).expect("memory"),
        device.alloc(5).expect("memory"),
    );
    let layout = Layout::contiguous(&[5, 0]).expect("a shape");
    let operand = Operand::new(&x, &layout);
    let message = |reduction, axes: &[usize], out: &Buffer| {
        let error = reduce(&device, reduction, operand, axes, out);
        error.expect_err("a wrong argument").to_string()
    };
    assert_eq!(
        message(Reduction::Max, &[1], &out),
        "max: no elements to reduce in shape [5, 0]"
    );
    assert_eq!(
        message(Reduction::Sum, &[2], &out),
        "sum: axis 2 is out of range for shape [5, 0]"
    );
    assert_eq!(
        message(Reduction::Sum, &[1, 1], &out),
        "sum: axis 1 occurs twice in [1, 1]"
    );
    assert_eq!(
        message(Reduction::Any, &[1], &out),
        "any: out has dtype f32, expected bool"
    );
    assert_eq!(
        message(Reduction::Sum, &[0], &out),
        "sum: out has 5 elements, expected 0"
    );
}
