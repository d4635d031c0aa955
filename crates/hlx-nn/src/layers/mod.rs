//! Layers: plain structs over parameters, each a [`Module`](crate::Module).

mod activation;
mod batch_norm;
mod conv;
mod dropout;
mod embedding;
mod group_norm;
mod layer_norm;
mod linear;
pub(crate) mod lora;
mod mlp;
mod plain;
mod pool;
mod recurrent;
mod rms_norm;
mod sequential;

use hlx_autograd::Tensor;

use crate::{Init, Parameter, ParameterBuilder, Result};

pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNormConfig};
pub use conv::{Conv1d, Conv2d, ConvTranspose2d};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use group_norm::GroupNorm;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use lora::{LoraConfig, LowRank, NamePatterns};
pub use mlp::MLP;
pub use plain::{ELU, Flatten, Hardswish, Identity, LeakyReLU, LogSoftmax, Mish, Softmax};
pub use pool::{AdaptiveAvgPool2d, AvgPool2d, MaxPool2d};
pub use recurrent::{GRU, LSTM, RecurrentConfig};
pub use rms_norm::RMSNorm;
pub use sequential::Sequential;

/// The values of a weight, and of its bias if there is one.
fn weight_and_bias(
    weight: &Parameter,
    bias: Option<&Parameter>,
) -> Result<(Tensor, Option<Tensor>)> {
    Ok((weight.tensor()?, bias.map(Parameter::tensor).transpose()?))
}

/// Declares the gain `weight`, ones, and `bias`, zeros, of a norm's channels.
fn declare_gain_and_bias(builder: &mut ParameterBuilder, channels: usize) -> [Parameter; 2] {
    [("weight", Init::Ones), ("bias", Init::Zeros)]
        .map(|(name, init)| builder.parameter(name, &[channels], init))
}

/// The values of a norm's gain and bias; `None` of a norm without them.
fn gain_and_bias(
    weight: Option<&Parameter>,
    bias: Option<&Parameter>,
) -> Result<Option<[Tensor; 2]>> {
    let both = weight.zip(bias);
    let values = both.map(|(weight, bias)| Ok([weight.tensor()?, bias.tensor()?]));
    values.transpose()
}
