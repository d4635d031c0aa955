//! The values of metadata.

/// A value of a file's metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// 8 bits without a sign.
    U8(u8),
    /// 8 bits.
    I8(i8),
    /// 16 bits without a sign.
    U16(u16),
    /// 16 bits.
    I16(i16),
    /// 32 bits without a sign.
    U32(u32),
    /// 32 bits.
    I32(i32),
    /// A 32-bit float.
    F32(f32),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(String),
    /// A list of values of one type.
    Array(Array),
    /// 64 bits without a sign.
    U64(u64),
    /// 64 bits.
    I64(i64),
    /// A 64-bit float.
    F64(f64),
}

/// A list of values of one type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Array {
    /// 8 bits without a sign.
    U8(Vec<u8>),
    /// 8 bits.
    I8(Vec<i8>),
    /// 16 bits without a sign.
    U16(Vec<u16>),
    /// 16 bits.
    I16(Vec<i16>),
    /// 32 bits without a sign.
    U32(Vec<u32>),
    /// 32 bits.
    I32(Vec<i32>),
    /// 32-bit floats.
    F32(Vec<f32>),
    /// True or false.
    Bool(Vec<bool>),
    /// Texts.
    Text(Vec<String>),
    /// Lists, which may be of different types.
    Array(Vec<Array>),
    /// 64 bits without a sign.
    U64(Vec<u64>),
    /// 64 bits.
    I64(Vec<i64>),
    /// 64-bit floats.
    F64(Vec<f64>),
}

/// The number of a text's type in files.
pub(crate) const TEXT: u32 = 8;
/// The number of a list's type in files.
pub(crate) const ARRAY: u32 = 9;

/// The number of a type in files, of a value or of a list's elements: their variants have the same names.
macro_rules! type_id {
    ($of:expr) => {
        match $of {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::Text(_) => TEXT,
            Self::Array(_) => ARRAY,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
        }
    };
}

impl Value {
    /// The number of the value's type in files.
    pub(crate) fn type_id(&self) -> u32 {
        type_id!(self)
    }

    /// What messages call the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "true or false",
            Self::Text(_) => "a text",
            Self::Array(_) => "a list",
            Self::F32(_) | Self::F64(_) => "a float",
            _ => "a whole number",
        }
    }

    /// The value as a whole number that is not negative.
    pub fn as_count(&self) -> Option<u64> {
        match *self {
            Self::U8(value) => Some(value.into()),
            Self::U16(value) => Some(value.into()),
            Self::U32(value) => Some(value.into()),
            Self::U64(value) => Some(value),
            Self::I8(value) => value.try_into().ok(),
            Self::I16(value) => value.try_into().ok(),
            Self::I32(value) => value.try_into().ok(),
            Self::I64(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The value as a number: a float, or a whole number that f64 holds exactly.
    pub fn as_number(&self) -> Option<f64> {
        const EXACT: u64 = 1 << 53;
        match *self {
            Self::F32(value) => Some(value.into()),
            Self::F64(value) => Some(value),
            Self::I8(value) => Some(value.into()),
            Self::I16(value) => Some(value.into()),
            Self::I32(value) => Some(value.into()),
            Self::I64(value) if value.unsigned_abs() <= EXACT => Some(value as f64),
            _ => {
                let count = self.as_count().filter(|&count| count <= EXACT);
                count.map(|count| count as f64)
            }
        }
    }

    /// The value as true or false.
    pub fn as_truth(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The value as a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The value as a list.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(value) => Some(value),
            _ => None,
        }
    }
}

impl Array {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(all) => all.len(),
            Self::I8(all) => all.len(),
            Self::U16(all) => all.len(),
            Self::I16(all) => all.len(),
            Self::U32(all) => all.len(),
            Self::I32(all) => all.len(),
            Self::F32(all) => all.len(),
            Self::Bool(all) => all.len(),
            Self::Text(all) => all.len(),
            Self::Array(all) => all.len(),
            Self::U64(all) => all.len(),
            Self::I64(all) => all.len(),
            Self::F64(all) => all.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the elements' type in files.
    pub(crate) fn type_id(&self) -> u32 {
        type_id!(self)
    }

    /// The elements as texts.
    pub fn as_texts(&self) -> Option<&[String]> {
        match self {
            Self::Text(all) => Some(all),
            _ => None,
        }
    }

    /// An element that is no text and no list, as a value.
    fn scalar(&self, at: usize) -> Option<Value> {
        Some(match self {
            Self::U8(all) => Value::U8(*all.get(at)?),
            Self::I8(all) => Value::I8(*all.get(at)?),
            Self::U16(all) => Value::U16(*all.get(at)?),
            Self::I16(all) => Value::I16(*all.get(at)?),
            Self::U32(all) => Value::U32(*all.get(at)?),
            Self::I32(all) => Value::I32(*all.get(at)?),
            Self::F32(all) => Value::F32(*all.get(at)?),
            Self::Bool(all) => Value::Bool(*all.get(at)?),
            Self::U64(all) => Value::U64(*all.get(at)?),
            Self::I64(all) => Value::I64(*all.get(at)?),
            Self::F64(all) => Value::F64(*all.get(at)?),
            Self::Text(_) | Self::Array(_) => return None,
        })
    }

    fn converted<T>(&self, convert: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
        let elements = (0..self.len()).map(|at| convert(&self.scalar(at)?));
        elements.collect()
    }

    /// The elements as whole numbers that are not negative.
    pub fn as_counts(&self) -> Option<Vec<u64>> {
        self.converted(Value::as_count)
    }

    /// The elements as numbers.
    pub fn as_numbers(&self) -> Option<Vec<f64>> {
        self.converted(Value::as_number)
    }

    /// The elements as true or false.
    pub fn as_truths(&self) -> Option<Vec<bool>> {
        self.converted(Value::as_truth)
    }
}

macro_rules! from {
    ($($type:ty => $name:ident;)+) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$name(value)
            }
        }

        impl From<Vec<$type>> for Value {
            fn from(values: Vec<$type>) -> Self {
                Self::Array(Array::$name(values))
            }
        }
    )+};
}

from! {
    u8 => U8;
    i8 => I8;
    u16 => U16;
    i16 => I16;
    u32 => U32;
    i32 => I32;
    f32 => F32;
    bool => Bool;
    String => Text;
    u64 => U64;
    i64 => I64;
    f64 => F64;
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Self {
        Self::Array(array)
    }
}
