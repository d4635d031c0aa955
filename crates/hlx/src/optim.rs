//! Optimizers and learning-rate schedules, as `torch.optim`; they are a part of [`nn`](crate::nn), too.

pub use hlx_nn::{
    Adafactor, AdafactorConfig, Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamW8bit,
    AdamWConfig, Averaged, Common, DecayShape, FlatOptimizer, Lion, LionConfig, Muon, MuonAdjust,
    MuonConfig, NewtonSchulz, OneCycle, Optimizer, OptimizerState, ParameterGroup, ParameterSet,
    Plateau, PlateauConfig, PlateauState, RMSprop, RMSpropConfig, SGD, SGDConfig, Schedule,
    UpdateRule, Watched, clip_grad_norm_, clip_grad_value_,
};
