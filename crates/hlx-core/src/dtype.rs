//! The types of a tensor's elements, and how Rust's types stand for them.

use std::fmt;
use std::str::FromStr;

use bytemuck::{NoUninit, Pod, Zeroable};
use half::{bf16, f16};

use crate::arithmetic::Half;
use crate::error::CoreError;

/// The type of an element. 64-bit types are not stored: they are checked and narrowed where data
/// comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE binary32. No tensor holds a subnormal.
    F32,
    /// IEEE binary16, subnormals included (they are normal numbers in f32).
    F16,
    /// The upper half of a binary32; subnormals count as zero.
    BF16,
    /// 32-bit two's complement, wrapping.
    I32,
    /// 32-bit unsigned, wrapping.
    U32,
    /// 8-bit two's complement, wrapping.
    I8,
    /// 8-bit unsigned, wrapping.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl Half {
    /// The dtype of such numbers.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }
}

impl DType {
    /// Every type; a type's id in shaders is its place.
    pub const ALL: [Self; 8] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::I32,
        Self::U32,
        Self::I8,
        Self::U8,
        Self::Bool,
    ];

    /// Bytes an element.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Elements in a 4-byte word of device memory.
    pub const fn per_word(self) -> usize {
        4 / self.size()
    }

    /// The 4-byte words that hold `len` elements; the last may be filled in part.
    pub const fn words(self, len: usize) -> usize {
        len.div_ceil(self.per_word())
    }

    /// Whether it is f32, f16 or bf16: the types that gradients flow through.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }

    /// Whether it is a signed or unsigned integer; `bool` is none.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::U32 | Self::I8 | Self::U8)
    }

    /// The type's id in shaders.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The name in messages and files, as in Rust: `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = CoreError;

    /// Reads a type's name.
    fn from_str(text: &str) -> Result<Self, CoreError> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            CoreError::invalid("dtype", format!("is `{text}`, expected one of {names}"))
        })
    }
}

/// A `bool` in device memory: the byte 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bool(u8);

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.0 != 0
    }
}

/// A Rust type whose values are a tensor's elements as they lie in memory.
pub trait Element: Pod + NoUninit + Send + Sync + fmt::Debug + PartialEq + 'static {
    /// The type of the elements.
    const DTYPE: DType;

    /// The value that a tensor holds for this one: a subnormal f32 or bf16 is a zero of its sign.
    fn stored(self) -> Self {
        self
    }
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),+ $(,)?) => {
        $(impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        })+
    };
}
elements!(f16 => F16, i32 => I32, u32 => U32, i8 => I8, u8 => U8, Bool => Bool);

impl Element for f32 {
    const DTYPE: DType = DType::F32;

    fn stored(self) -> Self {
        const SIGN: u32 = 0x8000_0000;
        const EXPONENT: u32 = 0x7f80_0000;
        match self.to_bits() {
            bits if bits & EXPONENT == 0 => Self::from_bits(bits & SIGN),
            bits => Self::from_bits(bits),
        }
    }
}

impl Element for bf16 {
    const DTYPE: DType = DType::BF16;

    fn stored(self) -> Self {
        const SIGN: u16 = 0x8000;
        const EXPONENT: u16 = 0x7f80;
        match self.to_bits() {
            bits if bits & EXPONENT == 0 => Self::from_bits(bits & SIGN),
            bits => Self::from_bits(bits),
        }
    }
}

/// Packs elements into words of device memory, as they are stored; the last word's spare bytes are
/// zero.
pub(crate) fn pack<T: Element>(data: &[T]) -> Vec<u32> {
    let mut words = vec![0_u32; T::DTYPE.words(data.len())];
    let stored: &mut [T] = &mut bytemuck::cast_slice_mut(&mut words)[..data.len()];
    for (slot, value) in stored.iter_mut().zip(data) {
        *slot = value.stored();
    }
    words
}

/// Reads `len` elements from words of device memory.
pub(crate) fn unpack<T: Element>(words: Vec<u32>, len: usize) -> Vec<T> {
    match size_of::<T>() == size_of::<u32>() {
        // In place: nothing is allocated.
        true => words.into_iter().map(bytemuck::cast).collect(),
        false => bytemuck::cast_slice(&words)[..len].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_ids_are_places() {
        for (place, dtype) in (0..).zip(DType::ALL) {
            assert_eq!(dtype.name().parse::<DType>().expect("a name"), dtype);
            assert_eq!(dtype.id(), place);
        }
        let error = "f64".parse::<DType>().expect_err("no such type");
        assert_eq!(
            error.to_string(),
            "dtype: is `f64`, expected one of f32, f16, bf16, i32, u32, i8, u8, bool"
        );
    }

    #[test]
    fn elements_survive_packing() {
        let bytes: Vec<u8> = (0..7).collect();
        assert_eq!(pack(&bytes), [0x0302_0100, 0x0006_0504]);
        assert_eq!(unpack::<u8>(pack(&bytes), 7), bytes);
        let halves = [f16::from_bits(1), f16::from_f32(-2.5), f16::INFINITY];
        assert_eq!(unpack::<f16>(pack(&halves), 3), halves);
        assert_eq!(DType::F16.words(3), 2);
    }

    #[test]
    fn subnormals_are_stored_as_zeros_of_their_sign() {
        assert_eq!(
            pack(&[-1e-40_f32, 1e-40, 1.0]),
            [0x8000_0000, 0, 0x3f80_0000]
        );
        let low = [bf16::from_bits(0x8001), bf16::from_bits(0x0080)];
        assert_eq!(pack(&low), [0x0080_8000]);
        assert_eq!(pack(&[f16::from_bits(0x8001)]), [0x8001]);
    }
}
