//! Bad input: what does not fit is one line that says what was found; empty tensors, NaN and infinity
//! give what PyTorch gives.

use hlx_autograd::{AvgDivisor, DType, Interpolation, Padding, PoolOptions, Result, Tensor, Unary};
use hlx_core::testing::{devices, left_out, own_devices};
use hlx_core::{Bool, Device};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

fn of(device: &Device, values: &[f32]) -> Result<Tensor> {
    Tensor::from_slice(device, values, &[values.len()])
}

/// Equal, where NaN is equal to NaN; zeros of either sign are equal.
fn assert_values(name: &str, found: &Tensor, want: &[f32]) -> Result<()> {
    let found = found.to_vec::<f32>()?;
    let equal = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
    let all = found.len() == want.len() && found.iter().zip(want).all(equal);
    assert!(all, "{name}: {found:?}, expected {want:?}");
    Ok(())
}

/// An operation along a dimension of a \[2, 3\] tensor.
type Along = (&'static str, fn(&Tensor, isize) -> Result<Tensor>);

#[rustfmt::skip] // One line per operation.
const ALONG: [Along; 36] = [
    ("sum", |x, dim| x.sum_dim(&[dim], false)),
    ("mean", |x, dim| x.mean_dim(&[dim], false)),
    ("amax", |x, dim| x.amax(&[dim], false)),
    ("amin", |x, dim| x.amin(&[dim], false)),
    ("prod", |x, dim| x.prod(&[dim], false)),
    ("any", |x, dim| x.any(&[dim], false)),
    ("all", |x, dim| x.all(&[dim], false)),
    ("var", |x, dim| x.var(&[dim], 1, false)),
    ("norm", |x, dim| x.norm(2.0, &[dim], false)),
    ("logsumexp", |x, dim| x.logsumexp(&[dim], false)),
    ("argmax", |x, dim| x.argmax(Some(dim), false)),
    ("argmin", |x, dim| x.argmin(Some(dim), false)),
    ("cumsum", |x, dim| x.cumsum(dim)),
    ("cumprod", |x, dim| x.cumprod(dim)),
    ("sort", |x, dim| Ok(x.sort(dim, false)?.0)),
    ("argsort", |x, dim| x.argsort(dim, false)),
    ("topk", |x, dim| Ok(x.topk(1, dim, true)?.0)),
    ("gather", |x, dim| x.gather(dim, &places(x)?)),
    ("scatter", |x, dim| x.scatter(dim, &places(x)?, x)),
    ("scatter_add", |x, dim| x.scatter_add(dim, &places(x)?, x)),
    ("index_select", |x, dim| x.index_select(dim, &places(x)?.flatten(0, -1)?)),
    ("cat", |x, dim| Tensor::cat(&[x, x], dim)),
    ("transpose", |x, dim| x.transpose(dim, 0)),
    ("permute", |x, dim| x.permute(&[dim, 0])),
    ("squeeze", |x, dim| x.squeeze(dim)),
    ("slice", |x, dim| x.slice(dim, 0..1, 1)),
    ("narrow", |x, dim| x.narrow(dim, 0, 1)),
    ("select", |x, dim| x.select(dim, 0)),
    ("flip", |x, dim| x.flip(&[dim])),
    ("roll", |x, dim| x.roll(&[1], &[dim])),
    ("unfold", |x, dim| x.unfold(dim, 1, 1)),
    ("split", |x, dim| Ok(x.split(1, dim)?.remove(0))),
    ("chunk", |x, dim| Ok(x.chunk(2, dim)?.remove(0))),
    ("flatten", |x, dim| x.flatten(0, dim)),
    ("diagonal", |x, dim| x.diagonal(0, 0, dim)),
    ("repeat_interleave", |x, dim| x.repeat_interleave(2, dim)),
];

fn places(x: &Tensor) -> Result<Tensor> {
    Tensor::zeros(x.device(), x.shape(), DType::I32)
}

#[test]
fn a_dimension_that_is_not_there_is_named() -> Result<()> {
    let device = &devices()[0];
    let x = Tensor::ones(device, &[2, 3], DType::F32)?;
    for (name, operation) in ALONG {
        for dim in [2, -3, isize::MAX, isize::MIN] {
            let Err(error) = operation(&x, dim) else {
                panic!("{name} takes dimension {dim}");
            };
            let want = format!("{name}: dimension {dim} is out of range for a tensor of 2");
            assert_eq!(error.to_string(), want);
        }
        for dim in [0, 1, -1, -2] {
            // Twice the same dimension is another error.
            let outcome = operation(&x, dim).map(drop);
            let twice = matches!(name, "permute" | "diagonal") && matches!(dim, 0 | -2);
            assert_eq!(outcome.is_err(), twice, "{name} along {dim}: {outcome:?}");
        }
    }
    Ok(())
}

#[test]
fn reductions_of_nothing_are_pytorchs() -> Result<()> {
    for device in devices() {
        let none = Tensor::zeros(device, &[0, 2], DType::F32)?;
        for (name, found, want) in [
            ("sum", none.sum_dim(&[0], false)?, [0.0; 2]),
            ("mean", none.mean_dim(&[0], false)?, [NAN; 2]),
            ("prod", none.prod(&[0], false)?, [1.0; 2]),
            ("var", none.var(&[0], 1, false)?, [NAN; 2]),
            ("std", none.std(&[0], 1, false)?, [NAN; 2]),
            ("norm", none.norm(2.0, &[0], false)?, [0.0; 2]),
            ("norm of p = 1", none.norm(1.0, &[0], false)?, [0.0; 2]),
            ("logsumexp", none.logsumexp(&[0], false)?, [-INF; 2]),
        ] {
            assert_values(name, &found, &want)?;
        }
        assert_eq!(
            none.any(&[0], false)?.to_vec::<Bool>()?,
            [Bool::from(false); 2]
        );
        assert_eq!(
            none.all(&[0], false)?.to_vec::<Bool>()?,
            [Bool::from(true); 2]
        );
        assert_eq!(none.sum()?.item::<f32>()?, 0.0);
        assert!(none.mean()?.item::<f32>()?.is_nan());
        for x in [
            none.cumsum(0)?,
            none.cumprod(1)?,
            none.sort(0, true)?.0,
            none.softmax()?,
        ] {
            assert_eq!(x.shape(), [0, 2]);
        }
        assert_eq!(none.topk(0, 0, true)?.0.shape(), [0, 2]);
        for (name, outcome) in [
            ("amax", none.amax(&[0], false)),
            ("amin", none.amin(&[0], true)),
            ("argmax", none.argmax(Some(0), false)),
            ("argmin", none.argmin(None, false)),
            ("max_dim", none.max_dim(0, false).map(|(x, _)| x)),
        ] {
            let text = outcome.expect_err(name).to_string();
            assert!(!text.contains('\n') && !text.is_empty(), "{name}: {text}");
        }
        // Along a dimension that is not empty there is nothing to find, and no error.
        assert_eq!(none.amax(&[1], false)?.shape(), [0]);
        assert_eq!(none.argmax(Some(1), false)?.shape(), [0]);
        // Gradients of nothing.
        let leaf = none.with_gradient();
        leaf.sum_dim(&[0], false)?.sum()?.backward()?;
        assert_eq!(leaf.grad().expect("a gradient").shape(), [0, 2]);
    }
    Ok(())
}

#[test]
fn nan_and_infinity_go_through_reductions_and_orders_as_in_pytorch() -> Result<()> {
    for device in devices() {
        let x = of(device, &[2.0, NAN, -1.0, INF, NAN, -INF])?;
        let y = of(device, &[2.0, INF, -1.0])?;
        for (name, found, want) in [
            ("amax", x.amax(&[0], false)?, vec![NAN]),
            ("amin", x.amin(&[0], false)?, vec![NAN]),
            ("amax", y.amax(&[0], false)?, vec![INF]),
            ("sum", x.sum()?, vec![NAN]),
            ("sum", y.sum()?, vec![INF]),
            ("sum", of(device, &[INF, -INF])?.sum()?, vec![NAN]),
            ("mean", y.mean()?, vec![INF]),
            (
                "prod",
                of(device, &[INF, 0.0])?.prod(&[], false)?,
                vec![NAN],
            ),
            ("var", y.var(&[0], 1, false)?, vec![NAN]),
            ("norm", y.norm(2.0, &[0], false)?, vec![INF]),
            ("logsumexp", y.logsumexp(&[0], false)?, vec![INF]),
            (
                "logsumexp",
                of(device, &[-INF, -INF])?.logsumexp(&[0], false)?,
                vec![-INF],
            ),
            ("logsumexp", x.logsumexp(&[0], false)?, vec![NAN]),
            ("cumsum", y.cumsum(0)?, vec![2.0, INF, INF]),
            (
                "cumsum",
                of(device, &[1.0, NAN, 1.0])?.cumsum(0)?,
                vec![1.0, NAN, NAN],
            ),
            (
                "cumprod",
                of(device, &[2.0, 0.0, INF])?.cumprod(0)?,
                vec![2.0, 0.0, NAN],
            ),
            (
                "sort",
                x.sort(0, false)?.0,
                vec![-INF, -1.0, 2.0, INF, NAN, NAN],
            ),
            (
                "sort",
                x.sort(0, true)?.0,
                vec![NAN, NAN, INF, 2.0, -1.0, -INF],
            ),
            ("topk", x.topk(3, 0, true)?.0, vec![NAN, NAN, INF]),
            ("topk", x.topk(2, 0, false)?.0, vec![-INF, -1.0]),
            ("max_dim", x.max_dim(0, false)?.0, vec![NAN]),
            (
                "softmax",
                of(device, &[-INF, 0.0])?.softmax()?,
                vec![0.0, 1.0],
            ),
            (
                "softmax",
                of(device, &[-INF, -INF])?.softmax()?,
                vec![NAN, NAN],
            ),
            (
                "softmax",
                of(device, &[INF, 0.0])?.softmax()?,
                vec![NAN, NAN],
            ),
        ] {
            assert_values(name, &found, &want)?;
        }
        assert_eq!(
            x.argmax(None, false)?.to_vec::<u32>()?,
            [1],
            "the first NaN"
        );
        assert_eq!(x.argmin(None, false)?.to_vec::<u32>()?, [1]);
        assert_eq!(x.argsort(0, false)?.to_vec::<u32>()?, [5, 2, 0, 3, 1, 4]);
        assert!(bool::from(
            of(device, &[0.0, NAN])?.any(&[], false)?.item::<Bool>()?
        ));
        assert!(bool::from(x.all(&[], false)?.item::<Bool>()?));
    }
    Ok(())
}

#[test]
fn nan_and_infinity_go_through_elements_as_in_pytorch() -> Result<()> {
    for device in devices() {
        let x = of(device, &[NAN, INF, -INF, -0.0])?;
        let one = of(device, &[1.0])?;
        for (name, found, want) in [
            ("clamp", x.clamp(-1.0, 1.0)?, [NAN, 1.0, -1.0, 0.0]),
            ("relu", x.relu()?, [NAN, INF, 0.0, 0.0]),
            (
                "relu",
                x.unary(Unary::ReLU, [0.0; 2])?,
                [NAN, INF, 0.0, 0.0],
            ),
            ("sigmoid", x.sigmoid()?, [NAN, 1.0, 0.0, 0.5]),
            ("tanh", x.tanh()?, [NAN, 1.0, -1.0, 0.0]),
            ("exp", x.exp()?, [NAN, INF, 0.0, 1.0]),
            ("log", x.log()?, [NAN, INF, NAN, -INF]),
            ("sqrt", x.sqrt()?, [NAN, INF, NAN, 0.0]),
            ("reciprocal", x.reciprocal()?, [NAN, 0.0, 0.0, -INF]),
            ("abs", x.abs()?, [NAN, INF, INF, 0.0]),
            ("floor", x.floor()?, [NAN, INF, -INF, 0.0]),
            ("round", x.round()?, [NAN, INF, -INF, 0.0]),
            ("maximum", x.maximum(&one)?, [NAN, INF, 1.0, 1.0]),
            ("minimum", x.minimum(&one)?, [NAN, 1.0, -INF, 0.0]),
            ("remainder", x.remainder(3.0)?, [NAN, NAN, NAN, 0.0]),
            ("pow", x.pow(0.0)?, [1.0; 4]),
            ("pow", one.pow(&x)?, [1.0; 4]),
            ("add", x.add(INF)?, [NAN, INF, NAN, INF]),
            ("mul", x.mul(0.0)?, [NAN, NAN, NAN, 0.0]),
            (
                "masked_fill",
                x.masked_fill(&x.isnan()?, 3.0)?,
                [3.0, INF, -INF, 0.0],
            ),
        ] {
            assert_values(name, &found, &want)?;
        }
        let truths = |x: Tensor| -> Result<Vec<bool>> {
            let elements = x.to_vec::<Bool>()?;
            Ok(elements.into_iter().map(bool::from).collect())
        };
        for (name, found, want) in [
            ("eq", x.eq(&x)?, [false, true, true, true]),
            ("ne", x.ne(&x)?, [true, false, false, false]),
            ("lt", x.lt(1.0)?, [false, false, true, true]),
            ("ge", x.ge(1.0)?, [false, true, false, false]),
            ("isnan", x.isnan()?, [true, false, false, false]),
            ("isfinite", x.isfinite()?, [false, false, false, true]),
            ("logical_not", x.logical_not()?, [false, false, false, true]),
        ] {
            assert_eq!(truths(found)?, want, "{name}");
        }
        let whole = x.to_dtype(DType::I32)?.to_vec::<i32>()?;
        assert_eq!(whole, [0, i32::MAX, i32::MIN, 0]);
    }
    Ok(())
}

#[test]
fn nan_goes_through_windows_and_products() -> Result<()> {
    for device in devices() {
        let image = of(device, &[1.0, NAN, 3.0, 4.0])?.reshape(&[1, 1, 2, 2])?;
        let whole = PoolOptions::square(2);
        assert_values("max_pool2d", &image.max_pool2d(&whole)?, &[NAN])?;
        let mean = image.avg_pool2d(&whole, AvgDivisor::Padded);
        assert_values("avg_pool2d", &mean?, &[NAN])?;
        let single = PoolOptions::square(1);
        assert_values(
            "max_pool2d",
            &image.max_pool2d(&single)?,
            &[1.0, NAN, 3.0, 4.0],
        )?;
        let nearest = image.interpolate([2, 2], Interpolation::Nearest)?;
        assert_values("interpolate", &nearest, &[1.0, NAN, 3.0, 4.0])?;
        let square = image.reshape(&[2, 2])?;
        let zeros = Tensor::zeros(device, &[2, 1], DType::F32)?;
        assert_values("matmul", &square.matmul(&zeros)?, &[NAN, 0.0])?;
        let padded = square.pad(&[(1, 0)], Padding::Constant(INF))?;
        assert_values("pad", &padded, &[INF, 1.0, NAN, INF, 3.0, 4.0])?;
    }
    Ok(())
}

#[test]
fn shapes_with_zeros_go_through_every_operation_of_two() -> Result<()> {
    for device in devices() {
        let (rows, columns) = (
            Tensor::zeros(device, &[0, 3], DType::F32)?,
            Tensor::ones(device, &[3, 2], DType::F32)?,
        );
        assert_eq!(rows.matmul(&columns)?.shape(), [0, 2]);
        let inner = Tensor::ones(device, &[2, 0], DType::F32)?;
        let product = inner.matmul(&Tensor::ones(device, &[0, 2], DType::F32)?)?;
        assert_values("matmul over nothing", &product, &[0.0; 4])?;
        assert_eq!(
            rows.add(&Tensor::ones(device, &[1, 3], DType::F32)?)?
                .shape(),
            [0, 3]
        );
        assert_eq!(
            Tensor::cat(&[&rows, &columns.transpose(0, 1)?], 0)?.shape(),
            [2, 3]
        );
        assert_eq!(
            rows.linear(&Tensor::ones(device, &[4, 3], DType::F32)?, None)?
                .shape(),
            [0, 4]
        );
        let none = Tensor::from_slice(device, &Vec::<i32>::new(), &[0])?;
        assert_eq!(columns.index_select(0, &none)?.shape(), [0, 2]);
        assert!(
            columns
                .index_add(0, &none, &columns.narrow(0, 0, 0)?)?
                .equal(&columns)?
        );
        assert_eq!(rows.reshape(&[3, 0, 7])?.shape(), [3, 0, 7]);
    }
    Ok(())
}

#[test]
fn a_product_with_zeros_has_its_gradient() -> Result<()> {
    for device in devices() {
        // By hand: y = [a, ab, abc, abcd], the loss their sum weighted 1, 2, 3, 4.
        for (values, want) in [
            (
                [2.0, 0.0, 3.0, 4.0],
                [1.0, 2.0 * 2.0 + 3.0 * 6.0 + 4.0 * 24.0, 0.0, 0.0],
            ),
            ([2.0, 0.0, 3.0, 0.0], [1.0, 2.0 * 2.0 + 3.0 * 6.0, 0.0, 0.0]),
            (
                [0.0, 2.0, 3.0, 4.0],
                [1.0 + 4.0 + 18.0 + 96.0, 0.0, 0.0, 0.0],
            ),
        ] {
            let x = of(device, &values)?.with_gradient();
            let weight = of(device, &[1.0, 2.0, 3.0, 4.0])?;
            x.cumprod(0)?.mul(&weight)?.sum()?.backward()?;
            assert_values("cumprod", &x.grad().expect("a gradient"), &want)?;
        }
        let x = of(device, &[2.0, 0.0, 3.0])?.with_gradient();
        x.prod(&[0], false)?.backward()?;
        assert_values("prod", &x.grad().expect("a gradient"), &[0.0, 6.0, 0.0])?;
    }
    Ok(())
}

#[test]
fn more_elements_than_memory_has_are_one_line() -> Result<()> {
    let device = &devices()[0];
    for shape in [&[1 << 40, 1 << 40][..], &[usize::MAX], &[1 << 46]] {
        let error = Tensor::zeros(device, shape, DType::F32).expect_err("no such memory");
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
    }
    let nine = Tensor::zeros(device, &[1; 9], DType::F32).expect_err("nine dimensions");
    assert!(nine.to_string().contains("expected at most 8"), "{nine}");
    let short =
        Tensor::from_slice(device, &[1_u8; 3], &[1 << 33, 1 << 33]).expect_err("3 elements");
    assert!(
        short.to_string().contains("expected one of 3 elements"),
        "{short}"
    );
    Ok(())
}

/// Elements past 2^32: u8 on the CPU (13 GB), f32 on a GPU that has 60 GB. Set `HLX_EXHAUSTIVE=1`.
#[test]
fn elements_past_four_billion_are_there() -> Result<()> {
    if std::env::var_os("HLX_EXHAUSTIVE").is_none() {
        left_out(
            "tensors of more than 2^32 elements",
            "13 GB; HLX_EXHAUSTIVE is not set",
        );
        return Ok(());
    }
    let n: usize = (1 << 32) + 5;
    for device in &own_devices() {
        let (dtype, bytes) = if device.is_cpu() {
            (DType::U8, 1)
        } else {
            (DType::F32, 4)
        };
        if device.info().memory_bytes < (3 * n * bytes) as u64 {
            left_out(
                "tensors of more than 2^32 elements",
                "the device has too little memory",
            );
            continue;
        }
        let mut x = Tensor::full(device, &[n], 3.0, dtype)?;
        x.narrow(0, n - 2, 2)?.fill_(7.0)?;
        let end = x.narrow(0, n - 3, 3)?;
        assert_eq!(end.to_dtype(DType::F32)?.to_vec::<f32>()?, [3.0, 7.0, 7.0]);
        let sevens = x.eq(7.0)?;
        assert!(bool::from(sevens.any(&[0], false)?.item::<Bool>()?));
        assert!(!bool::from(
            sevens
                .narrow(0, 0, n - 2)?
                .any(&[0], false)?
                .item::<Bool>()?
        ));
        drop(sevens);
        x.add_(1)?;
        let around = x.narrow(0, (1 << 32) - 1, 3)?.to_dtype(DType::F32)?;
        assert_eq!(around.to_vec::<f32>()?, [4.0; 3]);
        let every = x.slice(0, 0..n, 1 << 30)?;
        if n * bytes / 4 <= device.max_binding_words() {
            assert_eq!(every.to_dtype(DType::F32)?.to_vec::<f32>()?, [4.0; 5]);
        } else {
            let error = every.add(1).expect_err("a span past one binding");
            assert!(error.to_string().contains("the device binds"), "{error}");
        }
    }
    Ok(())
}

/// A strided operand whose span is more than the device binds is refused with its size, not read wrong.
#[test]
fn strided_windows_past_one_binding_are_refused_or_right() -> Result<()> {
    for device in &own_devices() {
        let limit = device.max_binding_words();
        if device.is_cpu() || limit > 1 << 26 {
            continue;
        }
        // Columns that lie further apart than one binding reaches.
        let rows = 16;
        let columns = limit / 8;
        let x = Tensor::full(device, &[rows, columns], 1.0, DType::F32)?;
        let ends = x.slice(1, 0..columns, columns - 1)?;
        for outcome in [ends.add(1.0), ends.contiguous().and_then(|x| x.add(1.0))] {
            match outcome {
                Ok(sum) => assert_values("add", &sum, &[2.0; 32])?,
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("the device binds"), "{text}");
                }
            }
        }
        // Rows that one binding reaches.
        let part = ends.narrow(0, 12, 4)?.add(1.0)?;
        assert_values("add", &part, &[2.0; 8])?;
    }
    Ok(())
}
