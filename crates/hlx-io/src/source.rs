//! Elements outside of tensors, and how a tensor stores them.

use std::fmt::Display;

use half::{bf16, f16};
use hlx_autograd::Tensor;
use hlx_core::{Bool, Device, Element};

use crate::{IoError, Result};

/// An element of an array or a file, which a tensor stores as it is or narrowed.
pub trait Source: Copy {
    /// What a tensor stores.
    type Stored: Element;

    /// The element as a tensor stores it; `None` if that type has no such value.
    fn narrowed(self) -> Option<Self::Stored>;

    /// The element in messages.
    fn shown(self) -> String;
}

macro_rules! sources {
    ($($type:ty => $stored:ty, |$value:ident| $narrowed:expr;)+) => {
        $(impl Source for $type {
            type Stored = $stored;

            fn narrowed(self) -> Option<$stored> {
                let $value = self;
                $narrowed
            }

            fn shown(self) -> String {
                shown(&self)
            }
        })+
    };
}

fn shown(value: &impl Display) -> String {
    value.to_string()
}

sources! {
    f32 => f32, |value| Some(value);
    f64 => f32, |value| Some(value as f32);
    f16 => f16, |value| Some(value);
    bf16 => bf16, |value| Some(value);
    i8 => i8, |value| Some(value);
    u8 => u8, |value| Some(value);
    i16 => i32, |value| Some(value.into());
    u16 => i32, |value| Some(value.into());
    i32 => i32, |value| Some(value);
    u32 => u32, |value| Some(value);
    i64 => i32, |value| value.try_into().ok();
    u64 => u32, |value| value.try_into().ok();
    bool => Bool, |value| Some(value.into());
}

/// Makes a tensor of elements in row-major order. `name` is what messages call it.
pub(crate) fn tensor_of<S: Source>(
    device: &Device,
    (operation, name): (&'static str, &str),
    elements: impl IntoIterator<Item = S>,
    shape: &[usize],
) -> Result<Tensor> {
    let stored = |(place, element): (usize, S)| {
        element.narrowed().ok_or_else(|| IoError::Range {
            operation,
            name: name.to_owned(),
            place,
            value: element.shown(),
            stored: S::Stored::DTYPE.name(),
        })
    };
    let elements = elements.into_iter().enumerate().map(stored);
    let stored = elements.collect::<Result<Vec<_>>>()?;
    Ok(Tensor::from_slice(device, &stored, shape)?)
}
