//! What programs use most: `use hlx::prelude::*;`.

pub use hlx_autograd::{
    Activation, AttentionSpec, AvgDivisor, BackwardPlan, BatchNormOptions, ConvOptions, DType,
    IGNORE_INDEX, Index, PoolOptions, Recompute, Tensor, enable_grad, no_grad,
};
pub use hlx_data::{
    Augment, Cursor, DataLoader, Dataset, ImageSet, ImageTransform, LastBatch, LoaderOptions,
    Subset,
};
pub use hlx_nn::{
    AdaptiveAvgPool2d, AvgPool2d, BatchNorm1d, BatchNorm2d, CausalConfig, CausalLm, Conv1d, Conv2d,
    ConvTranspose2d, CrossEntropyOptions, Dropout, ELU, Embedding, Flatten, GRU, GroupNorm,
    Hardswish, Identity, Init, LSTM, LayerNorm, LeakyReLU, Linear, LogSoftmax, LossReduction, MLP,
    MaxPool2d, Mish, Mode, Model, Module, Parameter, ParameterBuilder, RMSNorm, Sequential,
    Softmax, TransformerConfig, Weights,
};

pub use crate::optim::{
    Adafactor, AdafactorConfig, Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamW8bit,
    AdamWConfig, Common, Lion, LionConfig, Muon, MuonConfig, OneCycle, Optimizer, ParameterGroup,
    Plateau, PlateauConfig, RMSprop, RMSpropConfig, SGD, SGDConfig, Schedule,
};
pub use crate::{Device, Error, Result};
