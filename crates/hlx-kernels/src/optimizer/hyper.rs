//! The numbers of an optimizer's step: a row of words for each group of parameters.

/// Words of the row that holds a [`Hyper`].
pub const HYPER_LEN: usize = 16;

/// The numbers of one optimizer step, for one group of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyper {
    /// The step's number, from 1 (for the bias corrections of Adam).
    pub step: u64,
    /// lr
    pub learning_rate: f64,
    /// Multiplies the rate of the step, and not that of a decoupled weight decay.
    pub step_factor: f64,
    /// mu of SGD, RMSprop and Muon; 0 for none.
    pub momentum: f64,
    /// The part of a gradient that SGD's momentum leaves out, from the second step on.
    pub dampening: f64,
    /// lambda
    pub weight_decay: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// eps
    pub epsilon: f64,
    /// The largest magnitude of a gradient's element; infinity for no limit.
    pub clip_value: f64,
}

impl Default for Hyper {
    /// PyTorch's defaults of Adam, at step 1, without weight decay.
    fn default() -> Self {
        Self {
            step: 1,
            learning_rate: 1e-3,
            step_factor: 1.0,
            momentum: 0.0,
            dampening: 0.0,
            weight_decay: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            clip_value: f64::INFINITY,
        }
    }
}

impl Hyper {
    /// Returns the row that the steps read, f32 bits to be uploaded with `upload_words`.
    ///
    /// Computed in f64 from the five operations that IEEE 754 rounds correctly, so equal on
    /// every machine, and rounded once to f32 (a subnormal result becomes zero).
    pub fn to_words(&self) -> [u32; HYPER_LEN] {
        let correction1 = 1.0 - power(self.beta1, self.step);
        let correction2 = 1.0 - power(self.beta2, self.step);
        let rate = self.learning_rate * self.step_factor;
        let fresh = if self.step > 1 {
            1.0 - self.dampening
        } else {
            1.0
        };
        bytemuck::cast(Numbers {
            negative_rate: rounded(-rate),
            momentum: rounded(self.momentum),
            weight_decay: rounded(self.weight_decay),
            keep: rounded(1.0 - self.learning_rate * self.weight_decay),
            one_minus_beta1: rounded(1.0 - self.beta1),
            beta2: rounded(self.beta2),
            one_minus_beta2: rounded(1.0 - self.beta2),
            negative_step: rounded(-rate / correction1),
            inverse_root: rounded(1.0 / correction2.sqrt()),
            epsilon: rounded(self.epsilon),
            fresh: rounded(fresh),
            limit: rounded(self.clip_value),
            clip: 0.0,
            free: [0.0; 3],
        })
    }
}

/// The nearest f32; a subnormal one becomes zero.
fn rounded(value: f64) -> f32 {
    let rounded = value as f32;
    if rounded.is_subnormal() { 0.0 } else { rounded }
}

/// `base^exponent` by squaring: `f64::powi` promises no bits.
pub fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut result) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

/// The row's words in the order of `shaders/optimizer/hyper.glsl`, and the clip factor, which the CPU twins
/// read from the first free one.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Numbers {
    pub negative_rate: f32,
    pub momentum: f32,
    pub weight_decay: f32,
    pub keep: f32,
    pub one_minus_beta1: f32,
    pub beta2: f32,
    pub one_minus_beta2: f32,
    pub negative_step: f32,
    pub inverse_root: f32,
    pub epsilon: f32,
    pub fresh: f32,
    pub limit: f32,
    pub clip: f32,
    free: [f32; 3],
}

impl Numbers {
    /// Reads a row.
    pub fn new(hyper: &[f32], clip: &[f32]) -> Self {
        let numbers = bytemuck::from_bytes::<Self>(bytemuck::cast_slice(hyper));
        Self {
            clip: clip[0],
            ..*numbers
        }
    }
}
