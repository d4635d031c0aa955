//! Arguments without measure: every method with a size among its arguments gives a result or one clear line, at once.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use hlx_autograd::{
    AvgDivisor, ConvOptions, DType, Interpolation, Padding, PoolOptions, Result, Tensor,
};
use hlx_core::Device;
use hlx_core::testing::cpu;

/// Sizes that overflow a product, a sum or a sign, that no memory holds, and none.
const SIZES: [usize; 7] = [
    0,
    1 << 40,
    1 << 61,
    isize::MAX as usize,
    1 << 63,
    usize::MAX - 1,
    usize::MAX,
];

type Call = fn(&Tensor, usize) -> Result<Tensor>;

fn first(parts: Result<Vec<Tensor>>) -> Result<Tensor> {
    Ok(parts?.remove(0))
}

fn image(x: &Tensor) -> Result<Tensor> {
    x.reshape(&[1, 1, 2, 3])
}

fn signal(x: &Tensor) -> Result<Tensor> {
    x.reshape(&[1, 1, 6])
}

fn taps(x: &Tensor) -> Result<Tensor> {
    Tensor::ones(x.device(), &[1, 1, 1, 1], DType::F32)
}

fn conv(n: usize) -> [ConvOptions; 4] {
    let plain = ConvOptions::default();
    [
        ConvOptions {
            stride: [n, n],
            ..plain
        },
        ConvOptions {
            padding: [n, n],
            ..plain
        },
        ConvOptions {
            dilation: [n, n],
            ..plain
        },
        ConvOptions { groups: n, ..plain },
    ]
}

fn pool(n: usize) -> [PoolOptions; 4] {
    let plain = PoolOptions::square(1);
    [
        PoolOptions {
            kernel: [n, n],
            ..plain
        },
        PoolOptions {
            stride: [n, n],
            ..plain
        },
        PoolOptions {
            padding: [n, n],
            ..plain
        },
        PoolOptions {
            dilation: [n, n],
            ..plain
        },
    ]
}

/// The first error, or the last result.
fn all<T>(options: impl IntoIterator<Item = T>, f: impl Fn(T) -> Result<Tensor>) -> Result<Tensor> {
    let results: Vec<Result<Tensor>> = options.into_iter().map(f).collect();
    results
        .into_iter()
        .reduce(|one, two| one.and(two))
        .expect("options")
}

/// A method and a call with a size, of a tensor [2, 3] of f32.
#[rustfmt::skip] // One line per call.
const CALLS: &[(&str, Call)] = &[
    ("from_slice", |x, n| Tensor::from_slice(x.device(), &[1.0; 6], &[n])),
    ("zeros", |x, n| Tensor::zeros(x.device(), &[n, 3], DType::U8)),
    ("full", |x, n| Tensor::full(x.device(), &[3, n, n], 1.0, DType::F16)),
    ("ones", |x, n| Tensor::ones(x.device(), &[n], DType::Bool)),
    ("rand", |x, n| Tensor::rand(x.device(), &[n], 1)),
    ("randn", |x, n| Tensor::randn(x.device(), &[n, n], 1)),
    ("randint", |x, n| Tensor::randint(x.device(), 0, 3, &[n], 1)),
    ("bernoulli", |x, n| Tensor::bernoulli(x.device(), 0.5, &[n], 1)),
    ("arange", |x, n| Tensor::arange(x.device(), 0.0, n as f64, 1.0)),
    ("arange", |x, n| Tensor::arange(x.device(), 0.0, n as f64 * 1e300, 1.0)),
    ("linspace", |x, n| Tensor::linspace(x.device(), 0.0, 1.0, n)),
    ("eye", |x, n| Tensor::eye(x.device(), n)),
    ("eye_of", |x, n| Tensor::eye_of(x.device(), n, 3)),
    ("reshape", |x, n| x.reshape(&[n, n])),
    ("view", |x, n| x.view(&[n])),
    ("unflatten", |x, n| x.unflatten(0, &[n, n])),
    ("expand", |x, n| x.narrow(0, 0, 1)?.expand(&[n, 3])?.add(1.0)),
    ("expand", |x, n| x.expand(&[n, n, 2, 3])?.select(0, 0)?.select(0, 0)),
    ("slice", |x, n| x.slice(1, n..usize::MAX, 1)),
    ("slice", |x, n| x.slice(1, 0..n, n)),
    ("narrow", |x, n| x.narrow(1, n, n)),
    ("narrow", |x, n| x.narrow(1, 0, n)),
    ("select", |x, n| x.select(1, n)),
    ("diagonal", |x, n| x.diagonal(n as isize, 0, 1)),
    ("diagonal", |x, n| x.diagonal((n as isize).wrapping_neg(), 0, 1)),
    ("unfold", |x, n| x.unfold(1, n, 1)),
    ("unfold", |x, n| x.unfold(1, 2, n)),
    ("unfold", |x, n| x.unfold(1, n, n)),
    ("split", |x, n| first(x.split(n, 1))),
    ("chunk", |x, n| first(x.chunk(n, 1))),
    ("pad", |x, n| x.pad(&[(n as isize, 0)], Padding::Constant(0.0))),
    ("pad", |x, n| x.pad(&[(n as isize, n as isize), (n as isize, n as isize)], Padding::Constant(0.0))),
    ("pad", |x, n| x.pad(&[(0, n as isize)], Padding::Reflect)),
    ("pad", |x, n| x.pad(&[(n as isize, 1)], Padding::Replicate)),
    ("roll", |x, n| x.roll(&[n as isize], &[1])),
    ("repeat", |x, n| x.repeat(&[n, 1])),
    ("repeat", |x, n| x.repeat(&[n, n, n])),
    ("repeat", |x, n| x.narrow(0, 0, 0)?.repeat(&[n, 1])),
    ("repeat_interleave", |x, n| x.repeat_interleave(n, 1)),
    ("repeat_interleave", |x, n| x.narrow(1, 0, 0)?.repeat_interleave(n, 1)),
    ("repeat_interleave_by", |x, n| {
        let counts = Tensor::from_slice(x.device(), &[(n as i32).wrapping_sub(1); 3], &[3])?;
        x.repeat_interleave_by(&counts, 1)
    }),
    ("cat", |x, n| {
        let long = x.narrow(0, 0, 1)?.expand(&[n, 3])?;
        Tensor::cat(&[&long, &long, &long, &long], 0)
    }),
    ("stack", |x, n| {
        let long = x.narrow(0, 0, 1)?.expand(&[n, 3])?;
        Tensor::stack(&[&long, &long], 0)
    }),
    ("sum of no rows", |x, n| Tensor::zeros(x.device(), &[0, n, n], DType::F32)?.sum_dim(&[0], false)),
    ("prod of no rows", |x, n| Tensor::zeros(x.device(), &[0, n, n], DType::F32)?.prod(&[0], false)),
    ("index_select of no columns", |x, n| Tensor::zeros(x.device(), &[n, 0], DType::F32)?.index_select(1, &Tensor::from_slice::<u32>(x.device(), &[0], &[1])?)),
    ("topk", |x, n| Ok(x.topk(n, 1, true)?.0)),
    ("tril", |x, n| x.tril(n as isize)),
    ("triu", |x, n| x.triu(n as isize)),
    ("index", |x, n| x.index(&[(n as isize).into()])),
    ("index", |x, n| x.index(&[((n as isize)..isize::MAX).into()])),
    ("index", |x, n| x.index(&[(isize::MIN..(n as isize)).into()])),
    ("rms_norm", |x, n| x.rms_norm(&[n], None, 1e-5)),
    ("rms_norm_one_plus", |x, n| x.rms_norm_one_plus(&[n], x, 1e-5)),
    ("group_norm", |x, n| image(x)?.group_norm(n, None, 1e-5)),
    ("conv1d", |x, n| all(conv(n), |options| signal(x)?.conv1d(&taps(x)?.select(2, 0)?, None, &options))),
    ("conv2d", |x, n| all(conv(n), |options| image(x)?.conv2d(&taps(x)?, None, &options))),
    ("conv2d", |x, n| image(x)?.conv2d(&taps(x)?, None, &ConvOptions { dilation: [n, n], same: true, ..ConvOptions::default() })),
    ("conv_transpose1d", |x, n| all(conv(n), |options| signal(x)?.conv_transpose1d(&taps(x)?.select(2, 0)?, None, &options, 0))),
    ("conv_transpose1d", |x, n| signal(x)?.conv_transpose1d(&taps(x)?.select(2, 0)?, None, &ConvOptions::default(), n)),
    ("conv_transpose2d", |x, n| all(conv(n), |options| image(x)?.conv_transpose2d(&taps(x)?, None, &options, [0, 0]))),
    ("conv_transpose2d", |x, n| image(x)?.conv_transpose2d(&taps(x)?, None, &ConvOptions::default(), [n, n])),
    ("max_pool2d", |x, n| all(pool(n), |options| image(x)?.max_pool2d(&options))),
    ("max_pool2d_with_indices", |x, n| all(pool(n), |options| Ok(image(x)?.max_pool2d_with_indices(&options)?.1))),
    ("avg_pool2d", |x, n| all(pool(n), |options| image(x)?.avg_pool2d(&options, AvgDivisor::Padded))),
    ("adaptive_avg_pool2d", |x, n| image(x)?.adaptive_avg_pool2d([n, 1])),
    ("interpolate", |x, n| image(x)?.interpolate([n, n], Interpolation::Nearest)),
    ("interpolate_by", |x, n| image(x)?.interpolate_by([n as f64, n as f64], Interpolation::Bilinear)),
    ("embedding_padded", |x, n| Tensor::from_slice::<u32>(x.device(), &[1], &[1])?.embedding_padded(x, n)),
    ("packed_attention", |x, n| x.reshape(&[1, 2, 3])?.packed_attention(n, &hlx_autograd::AttentionSpec::causal())),
];

/// Operations of two tensors that have elements nowhere, or one for all, and a result of n x n elements.
#[rustfmt::skip] // One line per call.
const PAIRS: &[(&str, Call)] = &[
    ("matmul", |x, n| zeros(x, &[n, 0])?.matmul(&zeros(x, &[0, n])?)),
    ("matmul of several", |x, n| zeros(x, &[2, n, 0])?.matmul(&zeros(x, &[2, 0, n])?)),
    ("matmul of integers", |x, n| zeros(x, &[n, 0])?.to_dtype(DType::I32)?.matmul(&zeros(x, &[0, n])?.to_dtype(DType::I32)?)),
    ("linear", |x, n| zeros(x, &[n, 0])?.linear(&zeros(x, &[n, 0])?, None)),
    ("outer", |x, n| line(x, n)?.outer(&line(x, n)?)),
    ("einsum", |x, n| Tensor::einsum("i,j->ij", &[&line(x, n)?, &line(x, n)?])),
    ("einsum of no terms", |x, n| Tensor::einsum("ik,jk->ij", &[&zeros(x, &[n, 0])?, &zeros(x, &[n, 0])?])),
    ("mul", |x, n| line(x, n)?.unsqueeze(1)?.mul(&line(x, n)?)),
    ("where", |x, n| {
        let chosen = Tensor::zeros(x.device(), &[1], DType::Bool)?.expand(&[n])?;
        line(x, n)?.unsqueeze(1)?.where_(&chosen, &line(x, n)?)
    }),
    ("embedding", |x, n| {
        let ids = Tensor::from_slice::<u32>(x.device(), &[0], &[1])?.expand(&[n])?;
        ids.embedding(&zeros(x, &[0, n])?)
    }),
    ("cat", |x, n| {
        let square = x.narrow(0, 0, 1)?.narrow(1, 0, 1)?.expand(&[1_usize << 10, (1 << 50) / (1 << 10)])?;
        Tensor::cat(&[&square, &square], isize::from(n > 1 << 40))
    }),
    ("stack", |x, n| {
        let long = line(x, (1 << 50) - n % 2)?;
        Tensor::stack(&[&long, &long], 0)
    }),
];

fn zeros(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(x.device(), shape, DType::F32)
}

/// A view of n elements that are one.
fn line(x: &Tensor, n: usize) -> Result<Tensor> {
    x.reshape(&[6])?.narrow(0, 0, 1)?.expand(&[n])
}

#[test]
fn results_whose_number_of_elements_wraps_are_refused() {
    let device = cpu().expect("the CPU device opens");
    let x = Tensor::arange(&device, 0.0, 6.0, 1.0).and_then(|x| x.reshape(&[2, 3]));
    let x = x.expect("a tensor");
    for &(name, call) in PAIRS {
        for n in [1 << 32, 1 << 49] {
            assert_eq!(fault(&x, name, call, n), None);
            let shape = call(&x, n).map(|y| y.shape().to_vec());
            assert!(shape.is_err(), "{name} with {n}: {shape:?}");
        }
    }
}

/// What is wrong with a call: a panic, a long time, or an error of several lines.
fn fault(x: &Tensor, name: &str, call: Call, n: usize) -> Option<String> {
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| call(x, n).map(|y| y.to_string())));
    let took = start.elapsed();
    let wrong = match result {
        Err(_) => "panicked".to_owned(),
        Ok(Err(error)) if error.to_string().contains('\n') => {
            format!("has an error of lines: {error}")
        }
        Ok(Err(error)) if error.to_string().contains(" 0 bytes asked") => {
            format!("does not say the size: {error}")
        }
        Ok(_) if took > Duration::from_secs(2) => format!("took {took:?}"),
        Ok(_) => return None,
    };
    Some(format!("{name} with {n} {wrong}"))
}

#[test]
fn sizes_without_measure_are_refused_at_once() {
    let device = cpu().expect("the CPU device opens");
    let x = Tensor::arange(&device, 0.0, 6.0, 1.0).and_then(|x| x.reshape(&[2, 3]));
    let x = x.expect("a tensor");
    let calls = CALLS
        .iter()
        .flat_map(|&(name, call)| SIZES.map(|n| (name, call, n)));
    let faults: Vec<String> = calls
        .filter_map(|(name, call, n)| fault(&x, name, call, n))
        .collect();
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn every_method_with_a_size_has_a_call() {
    let sized = super::methods::sized();
    assert!(sized.len() > 35, "{sized:?}");
    let called: BTreeSet<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    let missing: Vec<&String> = sized
        .iter()
        .filter(|name| !called.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "no call with a size: {missing:?}");
}

fn message(result: Result<impl Sized>) -> String {
    result.err().expect("an error").to_string()
}

/// They panicked, aborted, took 6.6 seconds, and made one chunk of none.
#[test]
fn repetitions_are_one_copy_and_too_many_an_error() -> Result<()> {
    let device: Device = cpu().expect("the CPU device opens");
    let x = Tensor::from_slice(&device, &[1.0, 2.0, 3.0], &[3])?.with_gradient();
    let many = x.repeat(&[160_000])?;
    assert_eq!(many.shape(), [480_000]);
    many.sum()?.backward()?;
    assert_eq!(
        x.grad().expect("a gradient").to_vec::<f32>()?,
        [160_000.0; 3]
    );
    assert_eq!(
        Tensor::zeros(&device, &[0], DType::F32)?
            .repeat(&[1 << 40])?
            .shape(),
        [0]
    );
    let text = message(x.repeat(&[usize::MAX]));
    let want = "repeat: shape: [18446744073709551615] has more elements than memory has addresses";
    assert_eq!(text, want);
    let text = message(x.chunk(0, 0));
    assert_eq!(
        text,
        "chunk: the number of chunks is 0, expected at least 1"
    );
    let text = message(x.pad(&[(isize::MAX, 0)], Padding::Constant(0.0)));
    assert!(text.contains("9223372036854775807"), "{text}");
    Ok(())
}
