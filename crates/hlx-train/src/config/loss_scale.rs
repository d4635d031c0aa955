//! `train.loss_scale`: what the loss is multiplied by before the backward pass.

use hlx_nn::LossScaling;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fault::{Checked, fault};

/// The word that lets the scale follow the gradients.
const DYNAMIC: &str = "dynamic";

/// The largest scale, 2^100; the smallest is its reciprocal.
const LARGEST: f64 = (1_u128 << 100) as f64;

/// The scale of a run's loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossScaleKind {
    /// PyTorch's rule, from 65,536 on.
    Dynamic,
    /// A number that stays.
    Fixed(f64),
}

impl LossScaleKind {
    /// What an optimizer takes.
    pub fn scaling(self) -> LossScaling {
        match self {
            Self::Dynamic => LossScaling::dynamic(),
            Self::Fixed(scale) => LossScaling::fixed(scale as f32),
        }
    }

    /// Fails for a number that is out of range.
    pub(super) fn check(self) -> Checked {
        match self {
            Self::Fixed(scale) if !(1.0 / LARGEST..=LARGEST).contains(&scale) => fault(
                "train.loss_scale",
                format!("is {scale}, expected \"{DYNAMIC}\" or a number of 2^-100 to 2^100"),
            ),
            _ => Ok(()),
        }
    }
}

impl Serialize for LossScaleKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Dynamic => serializer.serialize_str(DYNAMIC),
            Self::Fixed(scale) => serializer.serialize_f64(*scale),
        }
    }
}

impl<'de> Deserialize<'de> for LossScaleKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = LossScaleKind;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "\"{DYNAMIC}\" or a number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    DYNAMIC => Ok(LossScaleKind::Dynamic),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_f64<E>(self, scale: f64) -> Result<Self::Value, E> {
                Ok(LossScaleKind::Fixed(scale))
            }

            fn visit_i64<E>(self, scale: i64) -> Result<Self::Value, E> {
                Ok(LossScaleKind::Fixed(scale as f64))
            }

            fn visit_u64<E>(self, scale: u64) -> Result<Self::Value, E> {
                Ok(LossScaleKind::Fixed(scale as f64))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
