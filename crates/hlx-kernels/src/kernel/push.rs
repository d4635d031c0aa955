//! The push constants of a launch, from numbers of any size.

/// Words of the largest block of push constants.
const MOST_WORDS: usize = 64;

/// The push constants of a launch; [`push!`](crate::push) fills them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PushConstants {
    words: [u32; MOST_WORDS],
    len: usize,
    /// A number that 32 bits don't hold.
    misfit: Option<&'static str>,
}

impl PushConstants {
    /// The words of a struct of `spv/push.rs`.
    pub fn of(block: &impl bytemuck::NoUninit) -> Self {
        Self::from(bytemuck::cast_slice::<u8, u32>(bytemuck::bytes_of(block)))
    }

    /// As [`PushConstants::of`]; `misfit` names a number that 32 bits don't hold, and which a GPU then refuses.
    pub fn with_misfit(block: &impl bytemuck::NoUninit, misfit: Option<&'static str>) -> Self {
        Self {
            misfit,
            ..Self::of(block)
        }
    }

    pub(super) fn misfit(&self) -> Option<&'static str> {
        self.misfit
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words[..self.len])
    }
}

impl From<&[u32]> for PushConstants {
    fn from(block: &[u32]) -> Self {
        let mut words = [0; MOST_WORDS];
        words[..block.len()].copy_from_slice(block);
        Self {
            words,
            len: block.len(),
            misfit: None,
        }
    }
}

impl From<Vec<u32>> for PushConstants {
    fn from(block: Vec<u32>) -> Self {
        Self::from(block.as_slice())
    }
}

/// A value as the field of a push-constant block.
pub(crate) trait Field<T> {
    /// The field, and whether it holds the value.
    fn field(self) -> (T, bool);
}

impl Field<u32> for usize {
    fn field(self) -> (u32, bool) {
        (self as u32, u32::try_from(self).is_ok())
    }
}

impl Field<u32> for bool {
    fn field(self) -> (u32, bool) {
        (u32::from(self), true)
    }
}

/// Values that are a field as they are.
macro_rules! same_field {
    ($($kind:ty),*) => {$(
        impl Field<Self> for $kind {
            fn field(self) -> (Self, bool) {
                (self, true)
            }
        }

        impl<const N: usize> Field<Self> for [$kind; N] {
            fn field(self) -> (Self, bool) {
                (self, true)
            }
        }
    )*};
}
same_field!(u32, i32, f32);
