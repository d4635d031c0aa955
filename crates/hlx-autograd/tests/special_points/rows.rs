//! A row for each operation: the function of `fixtures/make_special_points.py` of the same name.

use hlx_autograd::{
    AvgDivisor, BatchNormOptions, ConvOptions, CrossEntropyOptions, DType, Interpolation,
    LossReduction, Padding, PoolOptions, Result, Rounding, Tensor,
};

/// An operation of the inputs that the fixture has.
pub type Function = fn(&[Tensor]) -> Result<Tensor>;

const SUM: LossReduction = LossReduction::Sum;
const NONE: LossReduction = LossReduction::None;
const IDS: [u32; 9] = [1, 1, 0, 0, 0, 0, 2, 1, 2];

const BATCH_NORM: BatchNormOptions<'_> = BatchNormOptions {
    eps: 0.1,
    momentum: None,
    shards: 1,
    empty: None,
    partials: None,
};

fn ids(x: &[Tensor], places: [u32; 9]) -> Result<Tensor> {
    Tensor::from_slice::<u32>(x[0].device(), &places, &[3, 3])
}

fn places(x: &[Tensor], places: &[u32]) -> Result<Tensor> {
    Tensor::from_slice::<u32>(x[0].device(), places, &[places.len()])
}

fn classes(x: &[Tensor]) -> Result<Tensor> {
    places(x, &[0, 2, 1])
}

fn class_loss(reduction: LossReduction) -> CrossEntropyOptions<'static> {
    CrossEntropyOptions {
        reduction,
        ..CrossEntropyOptions::default()
    }
}

fn smoothed() -> CrossEntropyOptions<'static> {
    CrossEntropyOptions {
        label_smoothing: 0.25,
        ..class_loss(NONE)
    }
}

fn weighted(x: &[Tensor]) -> Result<Tensor> {
    let weight = Tensor::from_slice(x[0].device(), &[1.0, 0.0, 2.0], &[3])?;
    let options = CrossEntropyOptions {
        weight: Some(&weight),
        ..CrossEntropyOptions::default()
    };
    x[0].cross_entropy_loss(&classes(x)?, &options)
}

#[rustfmt::skip] // One line per operation.
pub const ROWS: &[(&str, Function)] = &[
    ("neg", |x| x[0].neg()),
    ("abs", |x| x[0].abs()),
    ("square", |x| x[0].square()),
    ("sign", |x| x[0].sign()),
    ("floor", |x| x[0].floor()),
    ("ceil", |x| x[0].ceil()),
    ("round", |x| x[0].round()),
    ("trunc", |x| x[0].trunc()),
    ("exp", |x| x[0].exp()),
    ("exp2", |x| x[0].exp2()),
    ("expm1", |x| x[0].expm1()),
    ("sin", |x| x[0].sin()),
    ("cos", |x| x[0].cos()),
    ("tan", |x| x[0].tan()),
    ("atan", |x| x[0].atan()),
    ("sinh", |x| x[0].sinh()),
    ("cosh", |x| x[0].cosh()),
    ("tanh", |x| x[0].tanh()),
    ("sigmoid", |x| x[0].sigmoid()),
    ("erf", |x| x[0].erf()),
    ("relu", |x| x[0].relu()),
    ("gelu", |x| x[0].gelu()),
    ("gelu_tanh", |x| x[0].gelu_tanh()),
    ("silu", |x| x[0].silu()),
    ("softplus", |x| x[0].softplus()),
    ("mish", |x| x[0].mish()),
    ("sqrt", |x| x[0].sqrt()),
    ("rsqrt", |x| x[0].rsqrt()),
    ("reciprocal", |x| x[0].reciprocal()),
    ("log", |x| x[0].log()),
    ("log2", |x| x[0].log2()),
    ("log10", |x| x[0].log10()),
    ("log1p", |x| x[0].log1p()),
    ("asin", |x| x[0].asin()),
    ("acos", |x| x[0].acos()),
    ("hardswish", |x| x[0].hardswish()),
    ("softplus, threshold", |x| x[0].softplus()),
    ("softplus_with", |x| x[0].softplus_with(2.0, 2.0)),
    ("leaky_relu", |x| x[0].leaky_relu(0.25)),
    ("elu", |x| x[0].elu(1.5)),
    ("clamp", |x| x[0].clamp(-1.0, 0.5)),
    ("clamp, equal bounds", |x| x[0].clamp(0.5, 0.5)),
    ("clamp_min", |x| x[0].clamp_min(0.5)),
    ("clamp_max", |x| x[0].clamp_max(0.5)),
    ("clamp_min, tensor", |x| x[0].clamp_min(&x[1])),
    ("clamp_max, tensor", |x| x[0].clamp_max(&x[1])),
    ("mul, number", |x| x[0].mul(3.0)),
    ("add", |x| x[0].add(&x[1])),
    ("sub", |x| x[0].sub(&x[1])),
    ("mul", |x| x[0].mul(&x[1])),
    ("div", |x| x[0].div(&x[1])),
    ("maximum", |x| x[0].maximum(&x[1])),
    ("minimum", |x| x[0].minimum(&x[1])),
    ("atan2", |x| x[0].atan2(&x[1])),
    ("remainder", |x| x[0].remainder(&x[1])),
    ("add_scaled", |x| x[0].add_scaled(&x[1], 2.0)),
    ("div_rounded", |x| x[0].div_rounded(&x[1], Rounding::Trunc)),
    ("mul, itself", |x| x[0].mul(&x[0])),
    ("pow -1.0", |x| x[0].pow(-1.0)),
    ("pow 0.0", |x| x[0].pow(0.0)),
    ("pow 0.5", |x| x[0].pow(0.5)),
    ("pow 1.0", |x| x[0].pow(1.0)),
    ("pow 1.5", |x| x[0].pow(1.5)),
    ("pow 2.0", |x| x[0].pow(2.0)),
    ("pow 2.5", |x| x[0].pow(2.5)),
    ("pow 3.0", |x| x[0].pow(3.0)),
    ("pow 0.0, negative", |x| x[0].pow(0.0)),
    ("pow 1.0, negative", |x| x[0].pow(1.0)),
    ("pow 2.0, negative", |x| x[0].pow(2.0)),
    ("pow 3.0, negative", |x| x[0].pow(3.0)),
    ("pow, tensors", |x| x[0].pow(&x[1])),
    ("pow, base", |x| Tensor::full(x[0].device(), &[], 2.0, DType::F32)?.pow(&x[0])),
    ("prod", |x| x[0].prod(&[1], false)),
    ("prod, all", |x| x[0].prod(&[], false)),
    ("prod, two dimensions", |x| x[0].prod(&[1, 2], false)),
    ("cumprod", |x| x[0].cumprod(1)),
    ("cumprod, first", |x| x[0].cumprod(0)),
    ("cumsum", |x| x[0].cumsum(1)),
    ("sum", |x| x[0].sum()),
    ("sum_dim", |x| x[0].sum_dim(&[1], false)),
    ("mean", |x| x[0].mean()),
    ("mean_dim", |x| x[0].mean_dim(&[1], false)),
    ("amax", |x| x[0].amax(&[1], false)),
    ("amin", |x| x[0].amin(&[1], false)),
    ("max_dim", |x| Ok(x[0].max_dim(1, false)?.0)),
    ("min_dim", |x| Ok(x[0].min_dim(1, false)?.0)),
    ("var", |x| x[0].var(&[1], 1, false)),
    ("std", |x| x[0].std(&[1], 1, false)),
    ("logsumexp", |x| x[0].logsumexp(&[1], false)),
    ("softmax", |x| x[0].softmax()),
    ("softmax_dim", |x| x[0].softmax_dim(0)),
    ("log_softmax", |x| x[0].log_softmax(-1)),
    ("norm -inf", |x| x[0].norm(f32::NEG_INFINITY, &[1], false)),
    ("norm -2.0", |x| x[0].norm(-2.0, &[1], false)),
    ("norm -1.0", |x| x[0].norm(-1.0, &[1], false)),
    ("norm 0.0", |x| x[0].norm(0.0, &[1], false)),
    ("norm 0.5", |x| x[0].norm(0.5, &[1], false)),
    ("norm 1.0", |x| x[0].norm(1.0, &[1], false)),
    ("norm 1.5", |x| x[0].norm(1.5, &[1], false)),
    ("norm 2.0", |x| x[0].norm(2.0, &[1], false)),
    ("norm 2.5", |x| x[0].norm(2.5, &[1], false)),
    ("norm 3.0", |x| x[0].norm(3.0, &[1], false)),
    ("norm 4.0", |x| x[0].norm(4.0, &[1], false)),
    ("norm inf", |x| x[0].norm(f32::INFINITY, &[1], false)),
    ("sort", |x| Ok(x[0].sort(1, false)?.0)),
    ("topk", |x| Ok(x[0].topk(2, 1, true)?.0)),
    ("gather", |x| x[0].gather(1, &ids(x, IDS)?)),
    ("take_along_dim", |x| x[0].take_along_dim(&ids(x, IDS)?, Some(1))),
    ("index_select", |x| x[0].index_select(1, &places(x, &[2, 0, 0])?)),
    ("index", |x| x[0].index(&[(&places(x, &[2, 0, 0])?).into()])),
    ("index_put", |x| x[0].index_put(&[(&places(x, &[0, 2])?).into(), (&places(x, &[1, 1])?).into()], &x[1], false)),
    ("index_put, added", |x| x[0].index_put(&[(&places(x, &[0, 0])?).into(), (&places(x, &[1, 1])?).into()], &x[1], true)),
    ("index_add", |x| x[0].index_add(0, &places(x, &[2, 0, 0])?, &x[1])),
    ("scatter_add", |x| x[0].scatter_add(1, &ids(x, IDS)?, &x[1])),
    ("scatter", |x| x[0].scatter(1, &ids(x, [1, 2, 0, 1, 2, 0, 1, 2, 0])?, &x[1])),
    ("masked_select", |x| x[0].masked_select(&x[0].gt(1.0)?)),
    ("masked_fill", |x| x[0].masked_fill(&x[0].gt(1.0)?, 9.0)),
    ("where_", |x| x[0].square()?.where_(&x[0].gt(1.0)?, x[1].square()?)),
    ("where_, a root that is not chosen", |x| x[0].clamp_min(1.0)?.sqrt()?.where_(&x[0].gt(1.0)?, x[0].square()?)),
    ("tril", |x| x[0].square()?.tril(0)),
    ("triu", |x| x[0].square()?.triu(0)),
    ("reshape", |x| x[0].square()?.reshape(&[9])),
    ("view", |x| x[0].square()?.view(&[9])),
    ("transpose", |x| x[0].transpose(0, 1)?.mul(&x[0])),
    ("permute", |x| x[0].permute(&[1, 0])?.mul(&x[0])),
    ("expand", |x| x[0].expand(&[2, 3])?.mul(&x[0])),
    ("squeeze", |x| x[0].square()?.unsqueeze(0)?.squeeze(0)),
    ("unsqueeze", |x| x[0].square()?.unsqueeze(1)),
    ("flatten", |x| x[0].square()?.flatten(0, -1)),
    ("unflatten", |x| x[0].square()?.unflatten(1, &[3, -1])),
    ("slice", |x| x[0].square()?.slice(1, 0..3, 2)),
    ("narrow", |x| x[0].square()?.narrow(1, 1, 2)),
    ("select", |x| x[0].square()?.select(1, 2)),
    ("diagonal", |x| x[0].square()?.diagonal(0, 0, 1)),
    ("flip", |x| x[0].flip(&[1])?.mul(&x[0])),
    ("unfold", |x| x[0].square()?.unfold(1, 2, 1)),
    ("split", |x| x[0].split(2, 1)?[0].mul(&x[0].split(1, 1)?[2])),
    ("chunk", |x| x[0].chunk(2, 1)?[0].mul(&x[0].chunk(3, 1)?[2])),
    ("contiguous", |x| x[0].square()?.transpose(0, 1)?.contiguous()),
    ("to_dtype", |x| x[0].square()?.to_dtype(DType::BF16)?.to_dtype(DType::F32)),
    ("cat", |x| Tensor::cat(&[&x[0].mul(&x[1])?, &x[1]], 1)),
    ("stack", |x| Tensor::stack(&[&x[0].mul(&x[1])?, &x[1]], 1)),
    ("pad", |x| x[0].square()?.pad(&[(1, 2)], Padding::Constant(1.0))),
    ("pad, reflect", |x| x[0].square()?.pad(&[(2, 1)], Padding::Reflect)),
    ("pad, replicate", |x| x[0].square()?.pad(&[(2, 1)], Padding::Replicate)),
    ("roll", |x| x[0].roll(&[1], &[1])?.mul(&x[0])),
    ("repeat", |x| x[0].square()?.repeat(&[2, 3])),
    ("repeat_interleave", |x| x[0].square()?.repeat_interleave(2, 1)),
    ("repeat_interleave_by", |x| x[0].square()?.repeat_interleave_by(&places(x, &[2, 0, 1])?, 1)),
    ("matmul", |x| x[0].matmul(&x[1])),
    ("outer", |x| x[0].outer(&x[1])),
    ("einsum", |x| Tensor::einsum("ij,kj->ik", &[&x[0], &x[1]])),
    ("linear", |x| x[0].linear(&x[1], Some(&x[2]))),
    ("linear_add", |x| x[0].linear_add(&x[1], Some(&x[2]), &x[3])),
    ("layer_norm", |x| x[0].layer_norm(&x[1], &x[2], 0.1)),
    ("rms_norm", |x| x[0].rms_norm(&[3], Some(&x[1]), 0.1)),
    ("rms_norm_one_plus", |x| x[0].rms_norm_one_plus(&[3], &x[1], 0.1)),
    ("group_norm", |x| x[0].group_norm(1, Some([&x[1], &x[2]]), 0.1)),
    ("batch_norm", |x| x[0].batch_norm(Some([&x[1], &x[2]]), None, &BATCH_NORM)),
    ("batch_norm_by", |x| x[0].batch_norm_by(&x[1].detach().zeros_like()?, &x[1].detach().ones_like()?, Some([&x[1], &x[2]]), 0.1)),
    ("conv1d", |x| x[0].conv1d(&x[1], None, &ConvOptions::default())),
    ("conv2d", |x| x[0].conv2d(&x[1], None, &ConvOptions::default())),
    ("conv_transpose1d", |x| x[0].conv_transpose1d(&x[1], None, &ConvOptions::default(), 0)),
    ("conv_transpose2d", |x| x[0].conv_transpose2d(&x[1], None, &ConvOptions::default(), [0, 0])),
    ("max_pool2d", |x| x[0].square()?.max_pool2d(&PoolOptions::square(2))),
    ("avg_pool2d", |x| x[0].square()?.avg_pool2d(&PoolOptions::square(2), AvgDivisor::Padded)),
    ("adaptive_avg_pool2d", |x| x[0].square()?.adaptive_avg_pool2d([2, 2])),
    ("interpolate", |x| x[0].square()?.interpolate([2, 2], Interpolation::Nearest)),
    ("interpolate_by", |x| x[0].square()?.interpolate_by([2.0, 2.0], Interpolation::Nearest)),
    ("mse_loss", |x| x[0].mse_loss(&x[1], SUM)),
    ("l1_loss", |x| x[0].l1_loss(&x[1], SUM)),
    ("huber_loss", |x| x[0].huber_loss(&x[1], 1.0, SUM)),
    ("smooth_l1_loss", |x| x[0].smooth_l1_loss(&x[1], 1.0, SUM)),
    ("smooth_l1_loss, beta 0", |x| x[0].smooth_l1_loss(&x[1], 0.0, SUM)),
    ("binary_cross_entropy_with_logits", |x| x[0].binary_cross_entropy_with_logits(&x[1], None, None, NONE)),
    ("kl_div", |x| x[0].kl_div(&x[1], false, NONE)),
    ("kl_div, log", |x| x[0].kl_div(&x[1], true, NONE)),
    ("nll_loss", |x| x[0].square()?.nll_loss(&classes(x)?, &class_loss(NONE))),
    ("cross_entropy_loss", |x| x[0].cross_entropy_loss(&classes(x)?, &class_loss(NONE))),
    ("cross_entropy_loss, weighted", |x| weighted(x)),
    ("cross_entropy_loss, smoothed", |x| x[0].cross_entropy_loss(&classes(x)?, &smoothed())),
    ("cross_entropy_loss, probabilities", |x| x[0].cross_entropy_loss(&x[1], &class_loss(NONE))),
];
