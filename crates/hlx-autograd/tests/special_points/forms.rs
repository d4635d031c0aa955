//! Two forms of one function, at ordinary, large and infinite values: they agree, in values and in gradients.

use hlx_autograd::{
    Activation, AvgDivisor, BatchNormOptions, ConvOptions, CrossEntropyOptions, DType,
    IGNORE_INDEX, LossReduction, Padding, PoolOptions, Result, Rounding, Tensor, Unary,
};
use hlx_core::Device;
use hlx_core::testing::cpu;

use super::{counted_sum, gradients};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// Elements for functions of one.
const EACH: [f32; 17] = [
    0.0, 0.5, 1.0, -1.0, 19.0, -19.0, 100.0, -100.0, 1e4, -1e4, 1e6, -1e6, 1e20, 3e38, -3e38, INF,
    -INF,
];

/// Rows for functions of several elements.
const ROWS: [[f32; 3]; 12] = [
    [0.0, 0.0, 0.0],
    [0.5, -1.0, 2.0],
    [1e4, 1e4, 1e4],
    [1e4, 9999.0, 0.0],
    [1e6, 1e6, 999_999.0],
    [1e20, 1e20, 0.0],
    [3e38, 3e38, 3e38],
    [-3e38, -3e38, 3e38],
    [INF, 1.0, 2.0],
    [-INF, 1.0, 2.0],
    [-INF, -INF, -INF],
    [NAN, 1.0, 2.0],
];

type Function = fn(&Tensor) -> Result<Tensor>;

/// A function's name and two forms of it.
type Pair = (&'static str, Function, Function);

/// The same function as another unary operation.
fn unary(x: &Tensor, name: &str) -> Result<Tensor> {
    let operation = Unary::ALL.iter().find(|operation| operation.name() == name);
    x.unary(*operation.expect("a unary operation"), [0.0; 2])
}

/// A logit's loss beside a target.
fn logistic(x: &Tensor, target: f32) -> Result<Tensor> {
    let target = Tensor::full(x.device(), x.shape(), target, DType::F32)?;
    x.binary_cross_entropy_with_logits(&target, None, None, LossReduction::None)
}

fn zero(x: &Tensor) -> Result<Tensor> {
    x.detach().zeros_like()
}

#[rustfmt::skip] // One line per function.
const OF_EACH: &[Pair] = &[
    ("relu", |x| x.activation(Activation::ReLU), |x| unary(x, "relu")),
    ("gelu", |x| x.activation(Activation::GELU), |x| unary(x, "gelu")),
    ("gelu_tanh", |x| x.activation(Activation::GELUTanh), |x| unary(x, "gelu_tanh")),
    ("silu", |x| x.activation(Activation::SiLU), |x| unary(x, "silu")),
    ("silu by its definition", Tensor::silu, |x| x.mul(x.sigmoid()?)),
    ("sigmoid", |x| x.activation(Activation::Sigmoid), |x| unary(x, "sigmoid")),
    ("sigmoid by its definition", Tensor::sigmoid, |x| x.neg()?.exp()?.add(1.0)?.reciprocal()),
    ("tanh", |x| x.activation(Activation::Tanh), |x| unary(x, "tanh")),
    ("softplus", |x| x.activation(Activation::Softplus), |x| unary(x, "softplus")),
    ("softplus with its defaults", Tensor::softplus, |x| x.softplus_with(1.0, 20.0)),
    ("mish", Tensor::mish, |x| x.mul(x.softplus()?.tanh()?)),
    ("square", Tensor::square, |x| x.mul(x)),
    ("square as a power", Tensor::square, |x| x.pow(2.0)),
    ("abs", Tensor::abs, |x| x.maximum(x.neg()?)),
    ("relu as a maximum", |x| x.relu()?.add(x), |x| x.clamp_min(0.0)?.add(x)),
    ("clamp", |x| x.clamp(-1.0, 1.0), |x| x.clamp_min(-1.0)?.clamp_max(1.0)),
    ("leaky_relu", |x| x.leaky_relu(0.5), |x| x.where_(&x.gt(0.0)?, x.mul(0.5)?)),
    ("reciprocal", Tensor::reciprocal, |x| x.detach().ones_like()?.div(x)),
    ("neg", Tensor::neg, |x| x.mul(-1.0)),
    ("mul, number", |x| x.mul(0.5), |x| x.div(2.0)),
    ("exp2", Tensor::exp2, |x| Tensor::full(x.device(), &[], 2.0, DType::F32)?.pow(x)),
    ("l1_loss", |x| x.l1_loss(&zero(x)?, LossReduction::None), |x| x.smooth_l1_loss(&zero(x)?, 0.0, LossReduction::None)),
    ("huber_loss", |x| x.huber_loss(&zero(x)?, 1.0, LossReduction::None), |x| x.smooth_l1_loss(&zero(x)?, 1.0, LossReduction::None)),
    ("a logit that is to be 1", |x| logistic(x, 1.0), |x| logistic(&x.neg()?, 0.0)),
    ("a logit that is to be 0", |x| logistic(x, 0.0), |x| x.softplus()?.add(x.mul(0.0)?)),
    ("where_", |x| x.where_(&x.gt(0.0)?, 7.0), |x| x.masked_fill(&x.gt(0.0)?.logical_not()?, 7.0)),
    ("div_rounded", |x| x.div_rounded(3.0, Rounding::Floor), |x| x.detach().floor_divide(3.0)),
    ("repeat", |x| x.repeat(&[2]), |x| Tensor::cat(&[x, x], 0)),
    ("repeat_interleave", |x| x.repeat_interleave(2, 0), |x| x.repeat_interleave_by(&Tensor::from_slice::<u32>(x.device(), &[2], &[1])?, 0)),
    ("pad", |x| x.pad(&[(1, 0)], Padding::Constant(0.0)), |x| Tensor::cat(&[&x.detach().narrow(0, 0, 1)?.zeros_like()?, x], 0)),
];

/// The loss of a row's logits beside a class, by the kernel.
fn kernel_loss(x: &Tensor, class: u32, smoothing: f32) -> Result<Tensor> {
    let target = Tensor::from_slice::<u32>(x.device(), &[class], &[1])?;
    let one = Tensor::ones(x.device(), &[1], DType::F32)?;
    x.unsqueeze(0)?
        .cross_entropy_scaled(&target, &one, smoothing)
}

/// The same by operations: weighted by ones, or not reduced.
fn class_loss(x: &Tensor, class: u32, smoothing: f32, is_weighted: bool) -> Result<Tensor> {
    let target = Tensor::from_slice::<u32>(x.device(), &[class], &[])?;
    let ones = Tensor::ones(x.device(), &[x.n_elements()], DType::F32)?;
    let options = CrossEntropyOptions {
        weight: is_weighted.then_some(&ones),
        label_smoothing: smoothing,
        reduction: if is_weighted {
            LossReduction::Mean
        } else {
            LossReduction::None
        },
        ..CrossEntropyOptions::default()
    };
    x.cross_entropy_loss(&target, &options)
}

/// A row with the statistics of its elements, as one group of one sample.
fn group_of_one(x: &Tensor) -> Result<Tensor> {
    x.reshape(&[1, 1, 3])?
        .group_norm(1, None, 1e-5)?
        .reshape(&[3])
}

fn layer(x: &Tensor) -> Result<Tensor> {
    let (ones, zeros) = (x.detach().ones_like()?, zero(x)?);
    x.layer_norm(&ones, &zeros, 1e-5)
}

fn batch_of_one(x: &Tensor) -> Result<Tensor> {
    let options = BatchNormOptions::default();
    x.reshape(&[3, 1])?
        .batch_norm(None, None, &options)?
        .reshape(&[3])
}

fn kernel_of(x: &Tensor) -> Result<Tensor> {
    Tensor::from_slice(x.device(), &[1.0, 0.5], &[1, 1, 2])
}

fn pooled(x: &Tensor) -> Result<Tensor> {
    x.reshape(&[1, 1, 1, 3])
}

/// Windows of two elements of a row.
fn windows() -> PoolOptions {
    PoolOptions {
        kernel: [1, 2],
        stride: [1, 1],
        ..PoolOptions::square(1)
    }
}

fn negative(loss: Result<Tensor>) -> Result<Tensor> {
    loss?.neg()?.reshape(&[1])
}

#[rustfmt::skip] // One line per function.
const OF_ROWS: &[Pair] = &[
    ("log_softmax, the kernel's losses", |x| x.log_softmax(-1), |x| {
        let losses = [negative(kernel_loss(x, 0, 0.0)), negative(kernel_loss(x, 1, 0.0)), negative(kernel_loss(x, 2, 0.0))];
        let [a, b, c] = losses;
        Tensor::cat(&[&a?, &b?, &c?], 0)
    }),
    ("log_softmax, another dimension", |x| x.log_softmax(0), |x| x.reshape(&[3, 1])?.expand(&[3, 2])?.log_softmax(0)?.select(1, 1)),
    ("softmax", |x| x.softmax(), |x| x.reshape(&[3, 1])?.softmax_dim(0)?.reshape(&[3])),
    ("softmax, its logarithm", |x| x.softmax(), |x| x.log_softmax(-1)?.exp()),
    ("cross_entropy_loss, not reduced", |x| kernel_loss(x, 1, 0.0), |x| class_loss(x, 1, 0.0, false)),
    ("cross_entropy_loss, weighted", |x| kernel_loss(x, 1, 0.0), |x| class_loss(x, 1, 0.0, true)),
    ("cross_entropy_loss, smoothed", |x| kernel_loss(x, 1, 0.25), |x| class_loss(x, 1, 0.25, false)),
    ("cross_entropy_loss, smoothed and weighted", |x| kernel_loss(x, 1, 0.25), |x| class_loss(x, 1, 0.25, true)),
    ("cross_entropy, of no class", |x| kernel_loss(x, 9, 0.0), |x| class_loss(x, 9, 0.0, false)),
    ("cross_entropy, of no class, weighted", |x| kernel_loss(x, 9, 0.25), |x| class_loss(x, 9, 0.25, true)),
    ("cross_entropy, ignored", |x| kernel_loss(x, IGNORE_INDEX, 0.0), |x| class_loss(x, IGNORE_INDEX, 0.0, false)),
    ("nll_loss", |x| kernel_loss(x, 2, 0.0), |x| x.log_softmax(-1)?.nll_loss(&Tensor::from_slice::<u32>(x.device(), &[2], &[])?, &CrossEntropyOptions::default())),
    ("norm 1", |x| x.norm(1.0, &[], false), |x| x.abs()?.sum()),
    ("norm 2", |x| x.norm(2.0, &[0], false), |x| x.reshape(&[3, 1])?.norm(2.0, &[0], false)?.reshape::<usize>(&[])),
    ("norm inf", |x| x.norm(INF, &[], false), |x| x.abs()?.amax(&[], false)),
    ("mean", |x| x.mean(), |x| x.mean_dim(&[0], false)),
    ("mse_loss", |x| x.mse_loss(&zero(x)?, LossReduction::Mean), |x| x.mse_scaled(&zero(x)?, &Tensor::full(x.device(), &[1], 1.0 / 3.0, DType::F32)?)),
    ("sum", |x| x.sum(), |x| x.cumsum(0)?.select(0, 2)),
    ("prod", |x| x.prod(&[], false), |x| x.cumprod(0)?.select(0, 2)),
    ("topk", |x| Ok(x.topk(3, 0, true)?.0), |x| Ok(x.sort(0, true)?.0)),
    ("max_dim", |x| Ok(x.max_dim(0, false)?.0), |x| x.topk(1, 0, true)?.0.select(0, 0)),
    ("layer_norm", layer, group_of_one),
    ("batch_norm", layer, batch_of_one),
    ("rms_norm", |x| x.rms_norm(&[3], None, 1e-5), |x| x.rms_norm_one_plus(&[3], &zero(x)?, 1e-5)),
    ("conv1d", |x| x.reshape(&[1, 1, 3])?.conv1d(&kernel_of(x)?, None, &ConvOptions::default())?.reshape(&[2]),
        |x| x.unfold(0, 2, 1)?.matmul(&kernel_of(x)?.reshape(&[2])?)),
    ("max_pool2d", |x| pooled(x)?.max_pool2d(&windows())?.reshape(&[2]), |x| Ok(x.unfold(0, 2, 1)?.max_dim(1, false)?.0)),
    ("avg_pool2d", |x| pooled(x)?.avg_pool2d(&windows(), AvgDivisor::Padded)?.reshape(&[2]), |x| x.unfold(0, 2, 1)?.mean_dim(&[1], false)),
    ("matmul", |x| x.reshape(&[1, 3])?.matmul(&x.detach().ones_like()?.reshape(&[3, 1])?)?.reshape::<usize>(&[]),
        |x| Tensor::einsum("i,i->", &[x, &x.detach().ones_like()?])),
    ("linear", |x| x.reshape(&[1, 3])?.linear(&x.detach().ones_like()?.reshape(&[1, 3])?, None)?.reshape::<usize>(&[]),
        |x| x.reshape(&[1, 3])?.matmul(&x.detach().ones_like()?.reshape(&[3, 1])?)?.reshape::<usize>(&[])),
    ("gather", |x| x.gather(0, &Tensor::from_slice::<u32>(x.device(), &[2, 0], &[2])?), |x| x.index_select(0, &Tensor::from_slice::<u32>(x.device(), &[2, 0], &[2])?)),
];

/// A pair's name, and the elements at which its forms are not compared.
type Apart = (&'static str, fn(f32) -> bool);

/// Rows where one of two forms has infinity minus infinity, or a number that the other one's order of operations
/// rounds to infinity or to NaN, and why.
const APART: &[Apart] = &[
    // 1 / (1 + exp(-x)) is differentiated through an infinite exp.
    ("sigmoid by its definition", |x| x < -80.0),
    // x^2 of a power has a slope of 2 x too; at infinity it is a product with 0.
    ("square as a power", |x| x.is_infinite()),
    // The definition adds 0 x for NaN's sake, as PyTorch's formula does.
    ("a logit that is to be 0", |x| x.is_infinite()),
    ("a logit that is to be 1", |x| x.is_infinite()),
    // 2^x by way of a logarithm rounds large exponents; its slope at infinity is 0 times infinity.
    ("exp2", |x| x.is_infinite()),
    // A chain and a tree of sums overflow in other places.
    ("sum", |x| x.abs() >= 1e38),
    ("prod", |x| x.abs() >= 1e19),
];

fn agree(a: f32, b: f32) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-5 * a.abs().max(b.abs()).max(1e-2)
}

/// The values of a function, and its gradient by a plain and by a recorded pass.
fn found(device: &Device, values: &[f32], f: Function) -> Result<Vec<Vec<f32>>> {
    let x = [Tensor::from_slice(device, values, &[values.len()])?.with_gradient()];
    let y = f(&x[0])?;
    let mut all = vec![y.to_vec::<f32>()?];
    all.push(gradients(&counted_sum(&y)?, &x, false)?[0].to_vec::<f32>()?);
    let again = counted_sum(&f(&x[0])?)?;
    let recorded = gradients(&again, &x, true);
    if let Ok(recorded) = recorded {
        all.push(recorded[0].to_vec::<f32>()?);
    }
    Ok(all)
}

fn compare(device: &Device, pairs: &[Pair], rows: &[&[f32]]) -> Vec<String> {
    let mut wrong = Vec::new();
    for &(name, one, two) in pairs {
        let apart = APART
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, apart)| apart);
        for &row in rows {
            if apart.is_some_and(|apart| row.iter().any(|&x| apart(x))) {
                continue;
            }
            let [a, b] = [one, two].map(|f| found(device, row, f));
            let (a, b) = match (a, b) {
                (Ok(a), Ok(b)) => (a, b),
                (a, b) => {
                    wrong.push(format!("{name} of {row:?}: {:?} {:?}", a.err(), b.err()));
                    continue;
                }
            };
            // Values, gradients, and each against the other form's and against its own plain one.
            let plain = [(&a[0], &b[0], "values"), (&a[1], &b[1], "gradients")];
            let recorded = [(&a, "the first form's"), (&b, "the second form's")];
            let recorded = recorded
                .iter()
                .filter_map(|(all, form)| Some((&all[1], all.get(2)?, *form)));
            for (left, right, what) in plain.into_iter().chain(recorded) {
                let same =
                    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| agree(*a, *b));
                if !same {
                    wrong.push(format!("{name} of {row:?}, {what}: {left:?} and {right:?}"));
                }
            }
        }
    }
    wrong
}

#[test]
fn two_forms_of_one_function_agree() {
    let device = cpu().expect("the CPU device opens");
    let each: Vec<&[f32]> = EACH.iter().map(std::slice::from_ref).collect();
    let rows: Vec<&[f32]> = ROWS.iter().map(|row| &row[..]).collect();
    let mut wrong = compare(&device, OF_EACH, &each);
    wrong.extend(compare(&device, OF_ROWS, &rows));
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// In f64, of logits as large as f32 holds.
fn log_probabilities(x: &[f32]) -> Vec<f64> {
    let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let distances: Vec<f64> = x.iter().map(|&x| f64::from(x) - f64::from(top)).collect();
    let sum: f64 = distances.iter().map(|d| d.exp()).sum();
    distances.iter().map(|d| d - sum.ln()).collect()
}

/// `x - logsumexp(x)` gave -0.6933594 for two equal logits of 1e4.
#[test]
fn log_softmax_of_large_logits_is_that_of_f64() -> Result<()> {
    let device = cpu().expect("the CPU device opens");
    for row in ROWS.iter().filter(|row| row.iter().all(|x| x.is_finite())) {
        let x = Tensor::from_slice(&device, row, &[3])?;
        let found = x.log_softmax(0)?.to_vec::<f32>()?;
        for (found, want) in found.iter().zip(log_probabilities(row)) {
            let close = (f64::from(*found) - want).abs() <= 1e-6 * (1.0 + want.abs());
            assert!(
                close || f64::from(*found) == want as f32 as f64,
                "{row:?}: {found}, expected {want}"
            );
        }
    }
    let x = Tensor::from_slice(&device, &[1e4, 1e4], &[2])?;
    let half = std::f32::consts::LN_2;
    assert_eq!(x.log_softmax(0)?.to_vec::<f32>()?, [-half, -half]);
    let x = Tensor::from_slice(&device, &[INF, 1.0, 2.0], &[3])?;
    assert!(
        x.log_softmax(0)?
            .to_vec::<f32>()?
            .iter()
            .all(|y| y.is_nan())
    );
    let x = Tensor::from_slice(&device, &[-INF, 0.0], &[2])?;
    assert_eq!(x.log_softmax(0)?.to_vec::<f32>()?, [-INF, 0.0]);
    Ok(())
}
