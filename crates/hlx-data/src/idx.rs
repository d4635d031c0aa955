//! IDX files, the format of MNIST: two zero bytes, a type, the number of dimensions, the extents as
//! big-endian 32-bit numbers, and the elements, row-major and big-endian. Plain or gzip.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use hlx_core::cpu::memory_budget;
use hlx_core::files::{self, write_atomically};
use hlx_core::sizes;

use crate::{DataError, Result};

#[cfg(test)]
mod tests;

/// How a gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// An array of an IDX file.
#[derive(Clone, Debug, PartialEq)]
pub struct IdxArray {
    shape: Vec<usize>,
    values: IdxValues,
}

/// The elements of an IDX file, one variant a type of the format.
#[derive(Clone, Debug, PartialEq)]
pub enum IdxValues {
    /// Type 0x08.
    U8(Vec<u8>),
    /// Type 0x09.
    I8(Vec<i8>),
    /// Type 0x0b.
    I16(Vec<i16>),
    /// Type 0x0c.
    I32(Vec<i32>),
    /// Type 0x0d.
    F32(Vec<f32>),
    /// Type 0x0e.
    F64(Vec<f64>),
}

impl IdxArray {
    /// Takes elements in row-major order.
    ///
    /// # Errors
    /// [`DataError::Argument`] if the shape's product is not the number of elements, or the format
    /// cannot state the shape: up to 255 dimensions of up to 2^32 - 1 each.
    pub fn new(shape: &[usize], values: IdxValues) -> Result<Self> {
        let wrong = |reason| Err(DataError::argument("idx_array", reason));
        let fits = shape.iter().all(|&extent| u32::try_from(extent).is_ok());
        if shape.len() > 255 || !fits {
            return wrong(format!("IDX cannot state the shape {shape:?}"));
        }
        if n_elements(shape) != Some(values.len()) {
            let found = values.len();
            return wrong(format!(
                "the shape is {shape:?}, and there are {found} values"
            ));
        }
        let shape = shape.to_vec();
        Ok(Self { shape, values })
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements in row-major order.
    pub fn values(&self) -> &IdxValues {
        &self.values
    }

    /// Gives the elements away.
    pub fn into_values(self) -> IdxValues {
        self.values
    }

    /// The plain file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, self.values.id(), self.shape.len() as u8];
        let extents = self.shape.iter().map(|&extent| extent as u32);
        bytes.extend(extents.flat_map(u32::to_be_bytes));
        self.values.append_to(&mut bytes);
        bytes
    }
}

/// Calls `$body` with the elements of any type.
macro_rules! on_values {
    ($values:expr, $all:ident => $body:expr) => {
        match $values {
            IdxValues::U8($all) => $body,
            IdxValues::I8($all) => $body,
            IdxValues::I16($all) => $body,
            IdxValues::I32($all) => $body,
            IdxValues::F32($all) => $body,
            IdxValues::F64($all) => $body,
        }
    };
}

impl IdxValues {
    /// The number of elements.
    pub fn len(&self) -> usize {
        on_values!(self, all => all.len())
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type's name, as in Rust: `u8`.
    pub fn type_name(&self) -> &'static str {
        Type::of(self).name
    }

    fn id(&self) -> u8 {
        Type::of(self).id
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        on_values!(self, all => bytes.extend(all.iter().flat_map(|value| value.to_be_bytes())));
    }
}

/// A type of the format.
struct Type {
    id: u8,
    name: &'static str,
    size: usize,
    read: fn(Vec<u8>) -> IdxValues,
}

/// Every type, in the order of [`IdxValues`]'s variants.
const TYPES: [Type; 6] = [
    Type {
        id: 0x08,
        name: "u8",
        size: 1,
        read: IdxValues::U8,
    },
    Type {
        id: 0x09,
        name: "i8",
        size: 1,
        read: |bytes| IdxValues::I8(elements(&bytes, i8::from_be_bytes)),
    },
    Type {
        id: 0x0b,
        name: "i16",
        size: 2,
        read: |bytes| IdxValues::I16(elements(&bytes, i16::from_be_bytes)),
    },
    Type {
        id: 0x0c,
        name: "i32",
        size: 4,
        read: |bytes| IdxValues::I32(elements(&bytes, i32::from_be_bytes)),
    },
    Type {
        id: 0x0d,
        name: "f32",
        size: 4,
        read: |bytes| IdxValues::F32(elements(&bytes, f32::from_be_bytes)),
    },
    Type {
        id: 0x0e,
        name: "f64",
        size: 8,
        read: |bytes| IdxValues::F64(elements(&bytes, f64::from_be_bytes)),
    },
];

impl Type {
    fn of(values: &IdxValues) -> &'static Self {
        &TYPES[match values {
            IdxValues::U8(_) => 0,
            IdxValues::I8(_) => 1,
            IdxValues::I16(_) => 2,
            IdxValues::I32(_) => 3,
            IdxValues::F32(_) => 4,
            IdxValues::F64(_) => 5,
        }]
    }
}

fn elements<T, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| read(*bytes))
        .collect()
}

/// Reads an IDX file, plain or gzip, whatever its name.
///
/// # Errors
/// [`DataError::File`] for a file that cannot be read, is no IDX file, is cut short, or holds another
/// number of elements than its header says.
pub fn read_idx(path: &Path) -> Result<IdxArray> {
    let bytes = files::read(path).map_err(|error| DataError::file(path, error))?;
    parse_idx(&bytes).map_err(|reason| DataError::file(path, reason))
}

/// Reads the bytes of an IDX file, plain or gzip. Memory is taken as elements come, so that a header
/// that says too much takes none.
///
/// # Errors
/// What is wrong, without the file's name.
pub fn parse_idx(bytes: &[u8]) -> Result<IdxArray, String> {
    match bytes.starts_with(&GZIP) {
        true => parse(MultiGzDecoder::new(bytes)),
        false => parse(bytes),
    }
}

/// Writes an IDX file as one; gzip where the name ends in `.gz`.
///
/// # Errors
/// [`DataError::File`] with the system's message.
pub fn write_idx(path: &Path, array: &IdxArray) -> Result<()> {
    let plain = array.to_bytes();
    let bytes = match path.extension().is_some_and(|extension| extension == "gz") {
        true => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let written = encoder.write_all(&plain).and_then(|()| encoder.finish());
            written.map_err(|error| DataError::file(path, error))?
        }
        false => plain,
    };
    write_atomically(path, &bytes).map_err(|error| DataError::file(path, error))
}

fn parse(mut source: impl Read) -> Result<IdxArray, String> {
    let mut magic = [0; 4];
    read_header(&mut source, &mut magic)?;
    let [zero, none, id, rank] = magic;
    if (zero, none) != (0, 0) {
        return Err(format!(
            "is no IDX file: it begins with {zero:02x} {none:02x}, expected 00 00"
        ));
    }
    let Some(found) = TYPES.iter().find(|known| known.id == id) else {
        let known = TYPES.map(|known| format!("{:02x} ({})", known.id, known.name));
        let known = known.join(", ");
        return Err(format!(
            "has elements of the IDX type {id:02x}, expected one of {known}"
        ));
    };
    let mut extents = vec![0; 4 * usize::from(rank)];
    read_header(&mut source, &mut extents)?;
    let shape: Vec<usize> = elements(&extents, u32::from_be_bytes)
        .into_iter()
        .map(|extent| extent as usize)
        .collect();
    let values = read_elements(source, found, &shape)?;
    Ok(IdxArray { shape, values })
}

fn read_header(source: &mut impl Read, part: &mut [u8]) -> Result<(), String> {
    source.read_exact(part).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => "is cut short within its header".to_owned(),
        _ => format!("cannot be decompressed: {error}"),
    })
}

fn read_elements(source: impl Read, found: &Type, shape: &[usize]) -> Result<IdxValues, String> {
    let n_bytes = n_elements(shape).and_then(|n| sizes::checked_product([n, found.size]));
    let says = format!("its header says {shape:?} of {}", found.name);
    // What inflates may continue until memory ends: more than there is is refused before.
    let Some(n_bytes) = n_bytes.filter(|&n| n as u64 <= memory_budget()) else {
        return Err(format!("{says}, more than memory can hold"));
    };
    let mut bytes = Vec::new();
    let read = source.take(n_bytes as u64 + 1).read_to_end(&mut bytes);
    let n_found = bytes.len();
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(format!(
            "is cut short: its gzip data end after {n_found} bytes of elements"
        )),
        Err(error) => Err(format!("cannot be decompressed: {error}")),
        Ok(_) if n_found < n_bytes => Err(format!(
            "is cut short: {says}, {n_bytes} bytes, and {n_found} follow"
        )),
        Ok(_) if n_found > n_bytes => Err(format!(
            "is too long: {says}, {n_bytes} bytes, and more follow"
        )),
        Ok(_) => Ok((found.read)(bytes)),
    }
}

/// The product of the extents; `None` if no memory holds that many.
fn n_elements(shape: &[usize]) -> Option<usize> {
    sizes::checked_product(shape.iter().copied())
}
