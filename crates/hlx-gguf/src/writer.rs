//! Writing a file: version 3, metadata and tensors in the order given, the same bytes each time.

use std::io::Write;
use std::path::Path;

use hlx_core::files::Output;

use crate::Result;
use crate::error::{GgufError, shown};
use crate::header::{
    ALIGNMENT_KEY, MAGIC, MAX_DIMENSIONS, MAX_NAME, VERSION, alignment_of, bytes_of,
};
use crate::kind::BlockKind;
use crate::metadata::Metadata;
use crate::value::{Array, Value};

/// A tensor that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTensor {
    /// Its name, of at most 64 bytes.
    pub name: String,
    /// How its values are stored.
    pub kind: BlockKind,
    /// Its extents, outermost first.
    pub shape: Vec<usize>,
}

/// Writes a file as one: an interruption leaves the old one. `bytes` is called for each tensor in order, and returns
/// its stored bytes, so that one tensor is in memory at a time.
///
/// # Errors
/// [`GgufError::Argument`]: a name that is empty, too long or there twice, a shape that its kind cannot store, bytes of
/// another number, an alignment that is none; [`GgufError::File`] with the system's reason; and those of `bytes`.
pub fn write_gguf(
    path: &Path,
    metadata: &Metadata,
    tensors: &[NewTensor],
    bytes: impl FnMut(usize) -> Result<Vec<u8>>,
) -> Result<()> {
    let fail = |error: std::io::Error| GgufError::file(path, error);
    let output = Output::at(path).map_err(fail)?;
    let mut failed = None;
    let written = output.write_with(|file| {
        let mut file = std::io::BufWriter::new(file);
        match write_to(&mut file, metadata, tensors, bytes) {
            Ok(written) => written?,
            Err(error) => {
                failed = Some(error);
                return Err(std::io::Error::other("no file"));
            }
        }
        file.flush()
    });
    match failed {
        Some(error) => Err(error),
        None => written.map_err(fail),
    }
}

/// As [`write_gguf`], in memory.
///
/// # Errors
/// As [`write_gguf`].
pub fn to_gguf(
    metadata: &Metadata,
    tensors: &[NewTensor],
    bytes: impl FnMut(usize) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let written = write_to(&mut file, metadata, tensors, bytes)?;
    written.map_err(|error| GgufError::argument(OP, error))?;
    Ok(file)
}

const OP: &str = "write_gguf";

/// Writes all; the inner error is the system's.
fn write_to(
    file: &mut impl Write,
    metadata: &Metadata,
    tensors: &[NewTensor],
    mut bytes: impl FnMut(usize) -> Result<Vec<u8>>,
) -> Result<std::io::Result<()>> {
    let wrong = |reason: String| GgufError::argument(OP, reason);
    let alignment = alignment_of(metadata).map_err(wrong)? as usize;
    if metadata
        .get(ALIGNMENT_KEY)
        .is_some_and(|stated| !matches!(stated, Value::U32(_)))
    {
        return Err(wrong(format!("`{ALIGNMENT_KEY}` is no u32")));
    }
    let header = header(metadata, tensors, alignment).map_err(wrong)?;
    if let Err(error) = file.write_all(&header) {
        return Ok(Err(error));
    }
    let zeros = vec![0; alignment];
    for (at, tensor) in tensors.iter().enumerate() {
        let stored = bytes(at)?;
        let expected = bytes_of(&tensor.shape, tensor.kind).map_err(wrong)?;
        if stored.len() as u64 != expected {
            let reason = format!(
                "the tensor {} has {} bytes, expected {expected}",
                shown(&tensor.name),
                stored.len()
            );
            return Err(wrong(reason));
        }
        let padding = &zeros[..padding(stored.len(), alignment)];
        let written = file
            .write_all(&stored)
            .and_then(|()| file.write_all(padding));
        if let Err(error) = written {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// Zeros up to the next multiple of the alignment.
fn padding(n_bytes: usize, alignment: usize) -> usize {
    n_bytes.next_multiple_of(alignment) - n_bytes
}

/// All bytes before the tensors' own.
fn header(metadata: &Metadata, tensors: &[NewTensor], alignment: usize) -> Result<Vec<u8>, String> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata.iter() {
        put_text(&mut bytes, key);
        bytes.extend(value.type_id().to_le_bytes());
        put_value(&mut bytes, value);
    }
    let mut offset = 0_u64;
    for (at, tensor) in tensors.iter().enumerate() {
        let n_bytes = check(tensor, &tensors[..at])?;
        put_text(&mut bytes, &tensor.name);
        bytes.extend((tensor.shape.len() as u32).to_le_bytes());
        for &extent in tensor.shape.iter().rev() {
            bytes.extend((extent as u64).to_le_bytes());
        }
        bytes.extend(tensor.kind.id().to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        let padded = n_bytes.next_multiple_of(alignment as u64);
        offset = offset.saturating_add(padded);
    }
    bytes.resize(bytes.len() + padding(bytes.len(), alignment), 0);
    Ok(bytes)
}

/// Checks a tensor against those before it; returns its bytes.
fn check(tensor: &NewTensor, before: &[NewTensor]) -> Result<u64, String> {
    let name = shown(&tensor.name);
    let n_dimensions = tensor.shape.len();
    if tensor.name.is_empty() || tensor.name.len() as u64 > MAX_NAME {
        let n = tensor.name.len();
        return Err(format!(
            "the tensor's name `{name}` has {n} bytes, expected 1 to {MAX_NAME}"
        ));
    }
    if before.iter().any(|other| other.name == tensor.name) {
        return Err(format!("the tensor {name} is there twice"));
    }
    if !(1..=MAX_DIMENSIONS as usize).contains(&n_dimensions) || tensor.shape.contains(&0) {
        return Err(format!(
            "the tensor {name} has shape {:?}, expected 1 to {MAX_DIMENSIONS} extents of 1 or more",
            tensor.shape
        ));
    }
    bytes_of(&tensor.shape, tensor.kind).map_err(|reason| format!("the tensor {name} {reason}"))
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn put_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(value) => bytes.extend(value.to_le_bytes()),
        Value::I8(value) => bytes.extend(value.to_le_bytes()),
        Value::U16(value) => bytes.extend(value.to_le_bytes()),
        Value::I16(value) => bytes.extend(value.to_le_bytes()),
        Value::U32(value) => bytes.extend(value.to_le_bytes()),
        Value::I32(value) => bytes.extend(value.to_le_bytes()),
        Value::F32(value) => bytes.extend(value.to_le_bytes()),
        Value::Bool(value) => bytes.push(u8::from(*value)),
        Value::Text(text) => put_text(bytes, text),
        Value::Array(array) => put_array(bytes, array),
        Value::U64(value) => bytes.extend(value.to_le_bytes()),
        Value::I64(value) => bytes.extend(value.to_le_bytes()),
        Value::F64(value) => bytes.extend(value.to_le_bytes()),
    }
}

fn put_array(bytes: &mut Vec<u8>, array: &Array) {
    macro_rules! put {
        ($all:ident) => {
            $all.iter()
                .for_each(|element| bytes.extend(element.to_le_bytes()))
        };
    }
    bytes.extend(array.type_id().to_le_bytes());
    bytes.extend((array.len() as u64).to_le_bytes());
    match array {
        Array::U8(all) => bytes.extend(all),
        Array::I8(all) => put!(all),
        Array::U16(all) => put!(all),
        Array::I16(all) => put!(all),
        Array::U32(all) => put!(all),
        Array::I32(all) => put!(all),
        Array::F32(all) => put!(all),
        Array::Bool(all) => bytes.extend(all.iter().map(|&truth| u8::from(truth))),
        Array::Text(all) => all.iter().for_each(|text| put_text(bytes, text)),
        Array::Array(all) => all.iter().for_each(|list| put_array(bytes, list)),
        Array::U64(all) => put!(all),
        Array::I64(all) => put!(all),
        Array::F64(all) => put!(all),
    }
}
