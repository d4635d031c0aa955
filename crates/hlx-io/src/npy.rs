//! NumPy's files: npy, one array, and npz, named arrays in a zip archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Cursor, Read, Write};
use std::path::Path;

use half::f16;
use hlx_autograd::{DType, Tensor};
use hlx_core::{Device, files};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::bytes::{bytes_of, elements};
use crate::npy_header::Header;
use crate::{IoError, Result};

/// The ending of the names of arrays in an archive.
const SUFFIX: &str = ".npy";

/// The most arrays of an archive.
const MAX_MEMBERS: usize = 1 << 15;

/// Writes a tensor to a file, as `numpy.save`; waits for the device.
///
/// # Errors
/// [`IoError::Argument`] for bf16, which NumPy does not have: convert it to f32; [`IoError::File`] with
/// the system's reason.
pub fn save_npy(path: &Path, tensor: &Tensor) -> Result<()> {
    const OP: &str = "save_npy";
    let written = files::write_atomically(path, &written(OP, tensor)?);
    written.map_err(|error| IoError::file(OP, path, error))
}

/// Reads an array from a file, in row-major or Fortran order, as `numpy.load`.
///
/// # Errors
/// [`IoError::File`] for a file that is missing, cut short or malformed, has bytes after the array or says more than
/// the device's memory may have, or an array of a type that HLX has no counterpart of; [`IoError::Range`] for an
/// integer that does not fit.
pub fn load_npy(device: &Device, path: &Path) -> Result<Tensor> {
    const OP: &str = "load_npy";
    let mut file = opened(path).map_err(|error| IoError::file(OP, path, error))?;
    read(device, OP, "the array", path, &mut file)
}

/// Opens a file that is not a git-lfs pointer.
fn opened(path: &Path) -> std::io::Result<BufReader<File>> {
    let mut file = BufReader::new(files::open(path)?);
    match files::is_lfs_pointer(file.fill_buf()?) {
        true => Err(std::io::Error::other(files::IS_LFS_POINTER)),
        false => Ok(file),
    }
}

/// Writes named tensors to an archive without compression, as `numpy.savez`; waits for the device.
///
/// # Errors
/// As [`save_npy`].
pub fn save_npz(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    const OP: &str = "save_npz";
    let refused = |error: String| IoError::file(OP, path, error);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, tensor) in tensors {
        let bytes = written(OP, tensor)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes.len() >= u32::MAX as usize);
        let started = archive.start_file(format!("{name}{SUFFIX}"), options);
        started.map_err(|error| refused(error.to_string()))?;
        let written = archive.write_all(&bytes);
        written.map_err(|error| refused(error.to_string()))?;
    }
    let archive = archive.finish();
    let bytes = archive.map_err(|error| refused(error.to_string()))?;
    let written = files::write_atomically(path, bytes.get_ref());
    written.map_err(|error| IoError::file(OP, path, error))
}

/// Reads the arrays of an archive, compressed or not, as `numpy.load`. Of a member no more is inflated than its array's
/// header says, whatever the archive says of its size.
///
/// # Errors
/// As [`load_npy`]; [`IoError::File`] for a member that is not an array or is encrypted, for two of one name or in the same
/// bytes of the file, and for more than 32,768 of them.
pub fn load_npz(device: &Device, path: &Path) -> Result<BTreeMap<String, Tensor>> {
    const OP: &str = "load_npz";
    let file = opened(path).map_err(|error| IoError::file(OP, path, error))?;
    let refused = |error: zip::result::ZipError| IoError::file(OP, path, error);
    let mut archive = ZipArchive::new(file).map_err(refused)?;
    check_members(&mut archive).map_err(|reason| IoError::file(OP, path, reason))?;
    let mut tensors = BTreeMap::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(refused)?;
        let name = member.name().map_err(refused)?.into_owned();
        let shown = name.escape_debug().to_string();
        let Some(name) = name.strip_suffix(SUFFIX) else {
            return Err(IoError::file(OP, path, format!("{shown} is no array")));
        };
        let shown = shown.strip_suffix(SUFFIX).unwrap_or(&shown);
        let tensor = read(device, OP, shown, path, &mut member)?;
        tensors.insert(name.to_owned(), tensor);
    }
    Ok(tensors)
}

/// Refuses archives that are made to be larger inside than any file is: too many members, several of one name, of
/// which one would hide the others, and several that are the same bytes.
fn check_members(archive: &mut ZipArchive<BufReader<File>>) -> Result<(), String> {
    let found = archive.len();
    if found > MAX_MEMBERS {
        return Err(format!(
            "has {found} members, expected at most {MAX_MEMBERS}"
        ));
    }
    if archive.has_duplicate_names() {
        return Err("has several members of one name".to_owned());
    }
    let overlap = archive.has_overlapping_entries();
    match overlap.map_err(|error| error.to_string())? {
        true => Err("has members that lie in the same bytes".to_owned()),
        false => Ok(()),
    }
}

/// The bytes of an npy file.
fn written(op: &'static str, tensor: &Tensor) -> Result<Vec<u8>> {
    let descr = match tensor.dtype() {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
        DType::BF16 => {
            let reason =
                "the tensor has elements of bf16, which NumPy does not have; convert it to f32";
            return Err(IoError::argument(op, reason));
        }
    };
    let mut bytes = Header::new(descr, tensor.shape()).to_bytes();
    bytes.extend(bytes_of(tensor)?);
    Ok(bytes)
}

/// Reads the header of an npy file and the data that it tells of, and not a byte more.
fn read_data(device: &Device, source: &mut impl Read) -> Result<(Header, Vec<u8>), String> {
    let header = Header::read(source)?;
    let (kind, shape) = (&header.kind, &header.shape);
    let says = || format!("of shape {shape:?} and type {}", kind.escape_debug());
    let Some(needed) = header.bytes() else {
        return Err(format!("{} is more than memory can hold", says()));
    };
    device
        .check_memory(needed)
        .map_err(|error| format!("{}: {error}", says()))?;
    // Memory is taken as data come: a header that says too much takes none.
    let mut data = Vec::new();
    let read = source.take(needed as u64 + 1).read_to_end(&mut data);
    read.map_err(|error| format!("{} cannot be read: {error}", says()))?;
    match data.len() {
        found if found < needed => Err(format!("{} has {found} bytes", says())),
        found if found > needed => Err(format!("{} has more than {needed} bytes", says())),
        _ => Ok((header, data)),
    }
}

/// Reads an npy file; `name` is what messages call the array.
fn read(
    device: &Device,
    op: &'static str,
    name: &str,
    path: &Path,
    source: &mut impl Read,
) -> Result<Tensor> {
    let refused = |reason: String| IoError::file(op, path, reason);
    let (header, data) =
        read_data(device, source).map_err(|reason| refused(format!("{name} {reason}")))?;
    let mut shape = header.shape.clone();
    if header.fortran_order {
        shape.reverse();
    }
    macro_rules! elements {
        ($type:ty) => {
            elements(
                device,
                (op, name),
                &shape,
                &data,
                match header.big_endian {
                    true => <$type>::from_be_bytes,
                    false => <$type>::from_le_bytes,
                },
            )
        };
    }
    let tensor = match header.kind.as_str() {
        "f2" => elements!(f16),
        "f4" => elements!(f32),
        "f8" => elements!(f64),
        "i1" => elements!(i8),
        "i2" => elements!(i16),
        "i4" => elements!(i32),
        "i8" => elements!(i64),
        "u1" => elements!(u8),
        "u2" => elements!(u16),
        "u4" => elements!(u32),
        "u8" => elements!(u64),
        "b1" => elements(device, (op, name), &shape, &data, |[byte]: [u8; 1]| {
            byte != 0
        }),
        kind => Err(refused(format!(
            "{name} has elements of {}, which no tensor stores",
            kind.escape_debug()
        ))),
    };
    let tensor = tensor.map_err(|error| match error {
        IoError::Argument { reason, .. } => refused(reason),
        other => other,
    })?;
    if !header.fortran_order {
        return Ok(tensor);
    }
    let reversed: Vec<isize> = (0..shape.len() as isize).rev().collect();
    Ok(tensor.permute(&reversed)?.contiguous()?)
}
