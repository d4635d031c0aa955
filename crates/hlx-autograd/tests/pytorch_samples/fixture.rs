//! Reads `fixtures/pytorch_samples.bin`: JSON and the words that it refers to.

use std::io::Read;

use half::{bf16, f16};
use hlx_autograd::DType;
use serde_json::Value;

/// The samples, and what they refer to.
pub struct Fixture {
    /// PyTorch's version.
    pub version: String,
    /// The operations of PyTorch's `op_db` that are not among the samples.
    pub others: Vec<String>,
    pub samples: Vec<Value>,
    words: Vec<u32>,
}

impl Fixture {
    /// Reads a file that a script beside it makes.
    pub fn read(path: &str) -> Self {
        let packed = std::fs::read(path).expect("the fixture is there");
        let mut data = Vec::new();
        flate2::read::ZlibDecoder::new(packed.as_slice())
            .read_to_end(&mut data)
            .expect("the fixture is deflated");
        let (length, rest) = data.split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let (text, planes) = rest.split_at(length as usize);
        let mut header: Value = serde_json::from_slice(text).expect("JSON");
        let samples = match header["samples"].take() {
            Value::Array(samples) => samples,
            other => panic!("samples are {other}"),
        };
        let n = planes.len() / 4;
        let byte = |plane: usize, i: usize| planes[plane * n + i];
        let word = |i| u32::from_le_bytes([byte(0, i), byte(1, i), byte(2, i), byte(3, i)]);
        Self {
            version: text_of(&header["torch"]),
            others: list(&header["others"]).iter().map(text_of).collect(),
            samples,
            words: (0..n).map(word).collect(),
        }
    }

    /// `n` elements from a word on.
    pub fn elements(&self, start: usize, n: usize, dtype: DType) -> Vec<f64> {
        let words = &self.words[start..];
        let halves = |i: usize| (words[i / 2] >> (16 * (i % 2))) as u16;
        match dtype {
            DType::F32 => (0..n).map(|i| f32::from_bits(words[i]).into()).collect(),
            DType::F16 => (0..n).map(|i| f16::from_bits(halves(i)).into()).collect(),
            DType::BF16 => (0..n).map(|i| bf16::from_bits(halves(i)).into()).collect(),
            DType::U32 => (0..n).map(|i| words[i].into()).collect(),
            _ => (0..n).map(|i| words[i].cast_signed().into()).collect(),
        }
    }
}

/// A list, empty if there is none.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A count.
pub fn count(value: &Value) -> usize {
    value.as_u64().expect("a count") as usize
}

/// Counts, such as a shape.
pub fn counts(value: &Value) -> Vec<usize> {
    list(value).iter().map(count).collect()
}

/// A text.
pub fn text_of(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// A type by its name; 64-bit integers are taken as i32.
pub fn dtype(value: &Value) -> DType {
    match value.as_str().expect("a type") {
        "i64" => DType::I32,
        name => name.parse().expect("a type of HLX"),
    }
}
