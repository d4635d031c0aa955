//! Matrix products in the integer arithmetic: every device has the bits of the definition, and so have the gradients.

mod definition;

use hlx_core::{Arithmetic, Device};

use self::definition::{PIECE, WHOLE, bits, columns, product, rows, transposed};
use crate::ops::test_support::{in_integer, values};
use crate::{BackwardPlan, Result, Tensor};
use hlx_kernels::KernelTuning;

/// Numbers of very different sizes, with a row of zeros and one of tiny ones.
fn uneven(seed: u32, n: usize, width: usize) -> Vec<f32> {
    let mut x = values(seed, n);
    for (row, x) in x.chunks_mut(width.max(1)).enumerate() {
        match row % 5 {
            1 => x.iter_mut().for_each(|x| *x *= 1e-20),
            2 => x.fill(0.0),
            3 => x[0] = 1e10,
            _ => {}
        }
    }
    x
}

/// A B and both gradients, from an upstream gradient.
fn run(
    device: &Device,
    [(a, of_a), (b, of_b)]: [(&[f32], &[usize]); 2],
    dc: &[f32],
) -> Result<[Vec<f32>; 3]> {
    let a = Tensor::from_slice(device, a, of_a)?.with_gradient();
    let b = Tensor::from_slice(device, b, of_b)?.with_gradient();
    let c = a.matmul(&b)?;
    let upstream = Tensor::from_slice(device, dc, c.shape())?;
    c.mul(&upstream)?.sum()?.backward()?;
    let gradient = |x: &Tensor| x.grad().expect("a gradient").to_vec();
    Ok([c.to_vec::<f32>()?, gradient(&a)?, gradient(&b)?])
}

/// The definition of A B and both gradients of one matrix each. `whole`: B's gradient is one sum, and rows without a gradient
/// count in no maximum of it.
fn defined(a: &[f32], b: &[f32], dc: &[f32], [k, n]: [usize; 2], whole: bool) -> [Vec<f32>; 3] {
    let counts = |at: usize| !whole || dc[at * n..][..n].iter().any(|x| *x != 0.0);
    let counted = |x: &[f32], width: usize| -> Vec<f32> {
        let rows = x.chunks(width).enumerate();
        let rows = rows.filter(|(at, _)| counts(*at)).map(|(_, row)| row);
        rows.flatten().copied().collect()
    };
    let terms = if whole { WHOLE } else { PIECE };
    let db = product(
        &columns(&counted(dc, n), n),
        &columns(&counted(a, k), k),
        terms,
    );
    [
        product(&rows(a, k), &columns(b, n), PIECE),
        product(&rows(dc, n), &rows(b, n), PIECE),
        transposed(&db, k),
    ]
}

#[test]
fn an_argument_of_another_arithmetic_is_refused() -> Result<()> {
    let device = &in_integer()[0];
    let portable = device.with_arithmetic(Arithmetic::Portable);
    let x = |device: &Device| Tensor::from_slice(device, &[1.0; 4], &[2, 2]);
    let (one, other) = (x(device)?, x(&portable)?);
    for refused in [
        one.matmul(&other),
        one.linear(&other, None),
        one.add(&other),
    ] {
        let text = refused.expect_err("another arithmetic").to_string();
        let expected = "is of the portable arithmetic, expected integer";
        assert!(text.ends_with(expected), "{text}");
    }
    Ok(())
}

#[test]
fn products_and_gradients_are_the_definition() -> Result<()> {
    for [m, n, k] in [
        [1, 1, 1],
        [3, 5, 31],
        [33, 16, 7],
        [17, 31, 33],
        [64, 65, 20],
        [PIECE + 5, 3, 2],
        [2, PIECE + 7, 3],
        [3, 2, PIECE + 9],
    ] {
        let (a, b, dc) = (
            uneven(1, m * k, k),
            uneven(2, k * n, n),
            uneven(3, m * n, n),
        );
        let expected = defined(&a, &b, &dc, [k, n], true);
        for device in in_integer() {
            let found = run(&device, [(&a, &[m, k]), (&b, &[k, n])], &dc)?;
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(bits(found), bits(expected), "{m} {n} {k} {}", device.info());
            }
        }
    }
    Ok(())
}

#[test]
fn batches_are_the_definition_of_each_matrix() -> Result<()> {
    let [batch, m, n, k] = [3, 18, 35, 9];
    let (a, b, dc) = (
        uneven(1, batch * m * k, k),
        uneven(2, batch * k * n, n),
        uneven(3, batch * m * n, n),
    );
    let mut expected = [const { Vec::new() }; 3];
    let parts = a.chunks(m * k).zip(b.chunks(k * n)).zip(dc.chunks(m * n));
    for ((a, b), dc) in parts {
        let of_one = defined(a, b, dc, [k, n], false);
        for (all, one) in expected.iter_mut().zip(of_one) {
            all.extend(one);
        }
    }
    for device in in_integer() {
        let found = run(&device, [(&a, &[batch, m, k]), (&b, &[batch, k, n])], &dc)?;
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(bits(found), bits(expected), "{}", device.info());
        }
        // A matrix that repeats along the batch is that of each product.
        let [found, ..] = run(
            &device,
            [(&a, &[batch, m, k]), (&b[..k * n], &[1, k, n])],
            &dc,
        )?;
        let of_first = product(&rows(&a, k), &columns(&b[..k * n], n), PIECE);
        assert_eq!(bits(&found), bits(&of_first), "{}", device.info());
    }
    Ok(())
}

/// And the rows of a NaN or an infinity give NaN, whatever they are multiplied with.
#[test]
fn infinities_and_no_terms() -> Result<()> {
    let (mut a, b) = (values(1, 3 * 5), [0.0; 10]);
    a[7] = f32::INFINITY;
    for device in in_integer() {
        let [c, da, db] = run(&device, [(&a, &[3, 5]), (&b, &[5, 2])], &[1.0; 6])?;
        let is_nan: Vec<bool> = c.iter().map(|x| x.is_nan()).collect();
        assert_eq!(is_nan, [false, false, true, true, false, false]);
        assert_eq!(da, [0.0; 15]);
        let is_nan: Vec<bool> = db.iter().map(|x| x.is_nan()).collect();
        assert_eq!(is_nan[2..6], [false, false, true, true]);
        for shapes in [[&[3, 0][..], &[0, 2]], [&[2, 3, 0], &[2, 0, 2]]] {
            let n = if shapes[0].len() == 2 { 6 } else { 12 };
            let [c, da, db] = run(
                &device,
                [(&[], shapes[0]), (&[], shapes[1])],
                &[1.0; 12][..n],
            )?;
            assert_eq!((bits(&c), da.len(), db.len()), (vec![0; n], 0, 0));
        }
        let [c, da, db] = run(&device, [(&a, &[3, 5]), (&[], &[5, 0])], &[])?;
        assert_eq!((c.len(), bits(&da), db.len()), (0, vec![0; 15], 0));
    }
    Ok(())
}

#[test]
fn vectors_views_and_sums_by_indices_have_the_bits_of_products_of_copies() -> Result<()> {
    for device in in_integer() {
        let x = |seed, shape: &[usize]| {
            let n = shape.iter().product();
            Tensor::from_slice(&device, &values(seed, n), shape)
        };
        let (a, b) = (x(1, &[21, 34])?, x(2, &[34, 19])?);
        let expected = a.matmul(&b)?.to_vec::<f32>()?;
        let (a_transposed, b_transposed) = (a.transpose(0, 1)?.contiguous()?, b.transpose(0, 1)?);
        let b_transposed = b_transposed.contiguous()?;
        let views = a_transposed
            .transpose(0, 1)?
            .matmul(&b_transposed.transpose(0, 1)?)?;
        assert_eq!(views.to_vec::<f32>()?, expected, "{}", device.info());
        assert_eq!(
            Tensor::einsum("ij,jk->ik", &[&a, &b])?.to_vec::<f32>()?,
            expected
        );
        assert_eq!(a.linear(&b_transposed, None)?.to_vec::<f32>()?, expected);
        let row = a.select(0, 4)?.matmul(&b)?.to_vec::<f32>()?;
        assert_eq!(row, expected[4 * 19..5 * 19]);
        let stacked = Tensor::stack(&[&a_transposed, &a_transposed], 0)?.transpose(1, 2)?;
        let all = stacked
            .matmul(&Tensor::stack(&[&b, &b], 0)?)?
            .to_vec::<f32>()?;
        assert_eq!(
            all,
            [&expected[..], &expected].concat(),
            "{}",
            device.info()
        );
    }
    Ok(())
}

/// A parameter of `matmul` is summed by shards as one of `linear`, whose weight is the transpose.
#[test]
fn a_parameter_has_the_gradient_of_a_linear_layer_by_shards() -> Result<()> {
    for device in in_integer() {
        let mut in_turn = KernelTuning::of(&device).clone();
        in_turn.shards_in_turn_from = 1;
        for device in [device.clone(), in_turn.on(&device)?] {
            for shards in [1, 2, 8] {
                let x = || -> Result<Tensor> {
                    let x = Tensor::from_slice(&device, &uneven(1, 8 * 16 * 12, 12), &[8, 16, 12])?;
                    x.with_gradient().with_samples(0)
                };
                let w = values(2, 12 * 20);
                let upstream = uneven(3, 8 * 16 * 20, 20);
                let upstream = Tensor::from_slice(&device, &upstream, &[8, 16, 20])?;
                let plan = BackwardPlan {
                    shards,
                    ..BackwardPlan::default()
                };
                let (one, other) = (x()?, x()?);
                let right = Tensor::from_slice(&device, &w, &[12, 20])?.with_gradient();
                let weight = transposed(&w, 20);
                let weight = Tensor::from_slice(&device, &weight, &[20, 12])?.with_gradient();
                let products = [one.matmul(&right)?, other.linear(&weight, None)?];
                for y in &products {
                    y.mul(&upstream)?.sum()?.backward_with(&plan)?;
                }
                let gradient = |x: &Tensor| x.grad().expect("a gradient").to_vec();
                assert_eq!(products[0].to_vec::<f32>()?, products[1].to_vec::<f32>()?);
                let expected = transposed(&gradient(&weight)?, 12);
                assert_eq!(gradient(&right)?, expected, "{shards} {}", device.info());
                assert_eq!(gradient(&one)?, gradient(&other)?);
            }
        }
    }
    Ok(())
}

/// A recorded pass is made of products again: the same gradients, and second ones near those of the portable arithmetic.
#[test]
fn recorded_passes_multiply_quantised_operands() -> Result<()> {
    let mut found = Vec::new();
    let portable = hlx_core::testing::devices()[0].clone();
    for device in in_integer().into_iter().chain([portable]) {
        let x = |seed, shape: &[usize]| -> Result<Tensor> {
            let n = shape.iter().product();
            Ok(Tensor::from_slice(&device, &values(seed, n), shape)?.with_gradient())
        };
        let mut of_device = Vec::new();
        for shapes in [[&[7, 5][..], &[5, 6]], [&[2, 7, 5], &[2, 5, 6]]] {
            let (a, b) = (x(1, shapes[0])?, x(2, shapes[1])?);
            let loss = |a: &Tensor, b: &Tensor| -> Result<Tensor> {
                let c = a.matmul(b)?;
                c.mul(&c)?.sum()
            };
            loss(&a, &b)?.backward()?;
            let first = [&a, &b].map(|x| x.grad().expect("a gradient"));
            let recorded = loss(&a, &b)?.gradients(&[&a, &b], true)?;
            let recorded: Vec<Tensor> = recorded.into_iter().flatten().collect();
            for (one, other) in first.iter().zip(&recorded) {
                assert_eq!(
                    one.to_vec::<f32>()?,
                    other.to_vec::<f32>()?,
                    "{}",
                    device.info()
                );
            }
            let of_both = recorded[0].mul(&recorded[0])?.sum()?;
            let second = of_both.gradients(&[&a, &b], false)?;
            for gradient in second.into_iter().flatten() {
                of_device.push(gradient.to_vec::<f32>()?);
            }
        }
        found.push(of_device);
    }
    let portable = found.pop().expect("the portable one");
    assert!(found.iter().all(|of_device| of_device == &found[0]));
    for (integer, portable) in found[0].iter().zip(&portable) {
        let size = portable.iter().fold(0.0_f32, |size, x| size.max(x.abs()));
        for (integer, portable) in integer.iter().zip(portable) {
            let error = (integer - portable).abs() / size;
            assert!(error < 0.03, "{integer} {portable} of {size}");
        }
    }
    Ok(())
}
