//! HLX's layers and losses by the names of PyTorch's modules.

use hlx_autograd::{Activation, AvgDivisor, ConvOptions, PoolOptions, Tensor};
use hlx_nn::{
    AdaptiveAvgPool2d, AvgPool2d, BatchNorm1d, BatchNorm2d, BatchNormConfig, Conv1d, Conv2d,
    ConvTranspose2d, CrossEntropyOptions, ELU, Embedding, GRU, GroupNorm, Hardswish, Init, LSTM,
    LayerNorm, LeakyReLU, Linear, LogSoftmax, MaxPool2d, Mish, Mode, Module, ParameterBuilder,
    RMSNorm, RecurrentConfig, Softmax,
};
use serde_json::Value;

use crate::arguments::{Arguments, Refused, Result};

/// A layer or a loss.
pub enum Made {
    Layer(Box<dyn Module>),
    Lstm(LSTM),
    Gru(GRU),
    Loss(String),
}

/// Declares a module; a loss has no parameters, and its arguments are read when it is computed.
pub fn declared(name: &str, k: &Arguments<'_>, b: &mut ParameterBuilder) -> Result<Made> {
    let layer: Box<dyn Module> = match name {
        "LSTM" => return Ok(Made::Lstm(LSTM::new(b, recurrent(k)))),
        "GRU" => return Ok(Made::Gru(GRU::new(b, recurrent(k)))),
        name if name.ends_with("Loss") => return Ok(Made::Loss(name.to_owned())),
        "Linear" => {
            let [input, output] = [k.count("in_features", 0), k.count("out_features", 0)];
            let bias = k.flag("bias", true).then_some(Init::Zeros);
            Box::new(Linear::with_init(b, input, output, Init::Zeros, bias))
        }
        "Conv1d" | "Conv2d" | "ConvTranspose2d" => convolution(name, k, b)?,
        "MaxPool2d" => Box::new(MaxPool2d { options: pool(k)? }),
        "AvgPool2d" => Box::new(average(k)?),
        "AdaptiveAvgPool2d" => Box::new(AdaptiveAvgPool2d::new(k.pair("output_size", [0, 0])?)),
        "Embedding" => {
            let (rows, width) = (k.count("num_embeddings", 0), k.count("embedding_dim", 0));
            Box::new(Embedding::new(b, rows, width))
        }
        name if name.ends_with("Norm") || name.starts_with("BatchNorm") => norm(name, k, b)?,
        name => function(name, k)?,
    };
    Ok(Made::Layer(layer))
}

fn recurrent(k: &Arguments<'_>) -> RecurrentConfig {
    RecurrentConfig {
        num_layers: k.count("num_layers", 1),
        bias: k.flag("bias", true),
        batch_first: k.flag("batch_first", false),
        dropout: k.number("dropout", 0.0),
        bidirectional: k.flag("bidirectional", false),
        proj_size: k.count("proj_size", 0),
        ..RecurrentConfig::new(k.count("input_size", 0), k.count("hidden_size", 0))
    }
}

fn convolution(name: &str, k: &Arguments<'_>, b: &mut ParameterBuilder) -> Result<Box<dyn Module>> {
    let (input, output) = (k.count("in_channels", 0), k.count("out_channels", 0));
    let kernel = k.pair("kernel_size", [1, 1])?;
    let same = k.text("padding") == Some("same");
    let options = ConvOptions {
        stride: k.pair("stride", [1, 1])?,
        padding: if same {
            [0, 0]
        } else {
            k.pair("padding", [0, 0])?
        },
        dilation: k.pair("dilation", [1, 1])?,
        groups: k.count("groups", 1),
        same,
    };
    let bias = k.flag("bias", true);
    Ok(match (name, bias) {
        ("Conv1d", true) => Box::new(Conv1d::new(b, input, output, kernel[1], options)),
        ("Conv1d", false) => Box::new(Conv1d::without_bias(b, input, output, kernel[1], options)),
        ("Conv2d", true) => Box::new(Conv2d::new(b, input, output, kernel, options)),
        ("Conv2d", false) => Box::new(Conv2d::without_bias(b, input, output, kernel, options)),
        (_, true) => {
            let more = k.pair("output_padding", [0, 0])?;
            let layer = ConvTranspose2d::new(b, input, output, kernel, options);
            Box::new(layer.with_output_padding(more))
        }
        (_, false) => {
            let more = k.pair("output_padding", [0, 0])?;
            let layer = ConvTranspose2d::without_bias(b, input, output, kernel, options);
            Box::new(layer.with_output_padding(more))
        }
    })
}

fn pool(k: &Arguments<'_>) -> Result<PoolOptions> {
    let kernel = k.pair("kernel_size", [1, 1])?;
    Ok(PoolOptions {
        kernel,
        stride: k.pair("stride", kernel)?,
        padding: k.pair("padding", [0, 0])?,
        dilation: k.pair("dilation", [1, 1])?,
        ceil_mode: k.flag("ceil_mode", false),
    })
}

fn average(k: &Arguments<'_>) -> Result<AvgPool2d> {
    let fixed = k.given("divisor_override").and_then(Value::as_i64);
    let divisor = match (fixed, k.flag("count_include_pad", true)) {
        (Some(fixed), _) => AvgDivisor::Fixed(fixed as i32),
        (None, true) => AvgDivisor::Padded,
        (None, false) => AvgDivisor::Inside,
    };
    let options = pool(k)?;
    Ok(AvgPool2d { options, divisor })
}

fn norm(name: &str, k: &Arguments<'_>, b: &mut ParameterBuilder) -> Result<Box<dyn Module>> {
    if name != "LayerNorm" && !k.flag("bias", true) {
        return Err(Refused::Form("`bias=False`".to_owned()));
    }
    if name.starts_with("BatchNorm") {
        let defaults = BatchNormConfig::default();
        let momentum = k.given("momentum");
        let config = BatchNormConfig {
            eps: k.number("eps", defaults.eps),
            momentum: momentum.map_or(defaults.momentum, |value| {
                value.as_f64().map(|value| value as f32)
            }),
            affine: k.flag("affine", true),
            track_running_stats: k.flag("track_running_stats", true),
        };
        let channels = k.count("num_features", 0);
        return Ok(match name {
            "BatchNorm1d" => Box::new(BatchNorm1d::with_config(b, channels, config)),
            _ => Box::new(BatchNorm2d::with_config(b, channels, config)),
        });
    }
    if name == "GroupNorm" {
        let (groups, channels) = (k.count("num_groups", 1), k.count("num_channels", 0));
        let norm = match k.flag("affine", true) {
            true => GroupNorm::new(b, groups, channels),
            false => GroupNorm::plain(groups),
        };
        return Ok(Box::new(norm.with_eps(k.number("eps", 1e-5))));
    }
    let shape = k.counts("normalized_shape")?.unwrap_or_default();
    let affine = k.flag("elementwise_affine", true);
    if name == "RMSNorm" {
        let norm = match affine {
            true => RMSNorm::new(b, &shape),
            false => RMSNorm::plain(&shape),
        };
        return Ok(Box::new(norm.with_eps(k.number("eps", f32::EPSILON))));
    }
    let norm = match (affine, k.flag("bias", true)) {
        (true, true) => LayerNorm::over(b, &shape),
        (true, false) => LayerNorm::without_bias(b, &shape),
        (false, _) => LayerNorm::plain(&shape),
    };
    Ok(Box::new(norm.with_eps(k.number("eps", 1e-5))))
}

fn function(name: &str, k: &Arguments<'_>) -> Result<Box<dyn Module>> {
    Ok(match name {
        "ReLU" => Box::new(Activation::ReLU),
        "GELU" => Box::new(match k.text("approximate") {
            Some("tanh") => Activation::GELUTanh,
            _ => Activation::GELU,
        }),
        "SiLU" => Box::new(Activation::SiLU),
        "Sigmoid" => Box::new(Activation::Sigmoid),
        "Tanh" => Box::new(Activation::Tanh),
        "Softplus" => Box::new(Activation::Softplus),
        "LeakyReLU" => Box::new(LeakyReLU {
            negative_slope: k.number("negative_slope", 0.01),
        }),
        "ELU" => Box::new(ELU {
            alpha: k.number("alpha", 1.0),
        }),
        "Hardswish" => Box::new(Hardswish),
        "Mish" => Box::new(Mish),
        "Softmax" => Box::new(Softmax {
            dim: k.dimension("dim"),
        }),
        "LogSoftmax" => Box::new(LogSoftmax {
            dim: k.dimension("dim"),
        }),
        _ => return Err(Refused::Form("a layer of this name".to_owned())),
    })
}

/// Applies a module to the inputs that its name says.
pub fn applied(
    made: &Made,
    (k, inputs): (&Arguments<'_>, &[Option<Tensor>]),
    mode: &Mode,
) -> Result<Vec<Tensor>> {
    let Some(Some(x)) = inputs.first() else {
        return Err(Refused::Form("no input".to_owned()));
    };
    let others: Vec<&Tensor> = inputs[1..].iter().flatten().collect();
    Ok(match (made, others.as_slice()) {
        (Made::Layer(layer), []) => vec![layer.forward(x, mode)?],
        (Made::Lstm(lstm), []) => {
            let (y, (h, c)) = lstm.forward_with(x, mode, None)?;
            vec![y, h, c]
        }
        (Made::Lstm(lstm), [hidden, cells]) => {
            let (y, (h, c)) = lstm.forward_with(x, mode, Some((hidden, cells)))?;
            vec![y, h, c]
        }
        (Made::Gru(gru), states) => {
            let (y, h) = gru.forward_with(x, mode, states.first().copied())?;
            vec![y, h]
        }
        (Made::Loss(name), [target]) => vec![loss(name, k, x, target)?],
        _ => return Err(Refused::Form(format!("{} inputs", inputs.len()))),
    })
}

fn loss(name: &str, k: &Arguments<'_>, x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let reduction = k.reduction();
    let weight = k.tensor("weight")?;
    let of_classes = CrossEntropyOptions {
        weight: weight.as_ref(),
        label_smoothing: k.number("label_smoothing", 0.0),
        ignore_index: k
            .given("ignore_index")
            .and_then(Value::as_i64)
            .map_or(CrossEntropyOptions::default().ignore_index, |id| id as u32),
        reduction,
    };
    Ok(match name {
        "MSELoss" => x.mse_loss(target, reduction)?,
        "L1Loss" => x.l1_loss(target, reduction)?,
        "HuberLoss" => x.huber_loss(target, k.number("delta", 1.0), reduction)?,
        "SmoothL1Loss" => x.smooth_l1_loss(target, k.number("beta", 1.0), reduction)?,
        "BCEWithLogitsLoss" => {
            let of_positives = k.tensor("pos_weight")?;
            x.binary_cross_entropy_with_logits(
                target,
                weight.as_ref(),
                of_positives.as_ref(),
                reduction,
            )?
        }
        "KLDivLoss" => x.kl_div(target, k.flag("log_target", false), reduction)?,
        "NLLLoss" => x.nll_loss(target, &of_classes)?,
        "CrossEntropyLoss" => x.cross_entropy_loss(target, &of_classes)?,
        _ => return Err(Refused::Form("a loss of this name".to_owned())),
    })
}
