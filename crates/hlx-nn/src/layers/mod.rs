//! Layers: plain structs over parameters, each a [`Module`](crate::Module).

mod activation;
mod attention;
mod batch_norm;
mod block;
mod conv;
mod dropout;
mod embedding;
mod feed_forward;
mod group_norm;
mod layer_norm;
mod linear;
mod mlp;
mod plain;
mod pool;
mod recurrent;
mod rms_norm;
mod sequential;

pub use attention::MultiHeadAttention;
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNormConfig};
pub use block::Block;
pub use conv::{Conv1d, Conv2d, ConvTranspose2d};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use feed_forward::FeedForward;
pub use group_norm::GroupNorm;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use mlp::Mlp;
pub use plain::{ELU, Flatten, Hardswish, Identity, LeakyReLU, LogSoftmax, Mish, Softmax};
pub use pool::{AdaptiveAvgPool2d, AvgPool2d, MaxPool2d};
pub use recurrent::{GRU, LSTM, RecurrentConfig};
pub use rms_norm::RMSNorm;
pub use sequential::Sequential;
