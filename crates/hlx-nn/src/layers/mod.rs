//! Layers: plain structs over parameters, each with a `forward`.

mod attention;
mod block;
mod dropout;
mod embedding;
mod feed_forward;
mod layer_norm;
mod linear;
mod mlp;

pub use attention::MultiHeadAttention;
pub use block::Block;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use feed_forward::FeedForward;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use mlp::Mlp;
