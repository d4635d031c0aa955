//! Models as they are stored, in blocks: their digest, and one file of a folder's tensors.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use hlx_core::digest::TensorHasher;
use hlx_core::files::{TemporaryFile, place, read_json};
use hlx_gguf::Gguf;
use serde_json::json;

use super::files::TensorFiles;
use super::gguf::{gguf_of, of_gguf};
use super::open::config_and_tensors;
use super::quantised::{Scheme, take_scheme};
use super::source::Arriving;
use crate::error::NnError;
use crate::{CONFIG_FILE, Result};

/// Whether a folder's configuration says that its matrices are in NF4.
pub fn is_nf4_folder(path: &Path) -> bool {
    let config = read_json(&place(path, CONFIG_FILE));
    config.is_ok_and(|config| matches!(take_scheme(&config), Ok(Some((Scheme::Nf4, _)))))
}

/// Whether a GGUF file, or that of a folder, has matrices in blocks, or a folder has some in NF4.
///
/// # Errors
/// [`NnError::File`] for a file that is missing, broken or cut.
pub fn has_blocks(path: &Path) -> Result<bool> {
    if gguf_of(path).is_none() && !is_nf4_folder(path) {
        return Ok(false);
    }
    let tensors = config_and_tensors(path)?.1?;
    let names = tensors.names();
    Ok(names.into_iter().any(|name| tensors.in_blocks(name)))
}

/// The SHA-256 of a model's tensors as they are stored, in hexadecimal digits, if they are those of a GGUF file
/// ([`Gguf::tensors_sha256`]) or if some are in NF4. Then it is, of each in the order of their names' bytes, the name, the shape, the
/// name of the kind and a zero byte, and the bytes: in NF4 those of the file, then the scale of each block of 64 values in f32; of others
/// the values in f32.
///
/// # Errors
/// [`NnError::File`] for a file that is missing, broken or cut.
pub fn stored_sha256(path: &Path) -> Result<Option<String>> {
    if let Some(file) = gguf_of(path) {
        let digest = Gguf::open(&file).and_then(|file| file.tensors_sha256());
        return digest.map(Some).map_err(|error| of_gguf(&file, error));
    }
    if !has_blocks(path)? {
        return Ok(None);
    }
    let tensors = config_and_tensors(path)?.1?;
    let mut names = tensors.names();
    names.sort_unstable();
    let mut hasher = TensorHasher::new();
    for name in names {
        hasher.begin(name, tensors.shape(name).unwrap_or_default());
        match tensors.arriving(name)? {
            Arriving::Nf4(matrix) => {
                hasher.elements(b"NF4\0");
                hasher.elements(&matrix.bytes);
                hasher.elements(&bytes_of(&matrix.scales));
            }
            other => {
                hasher.elements(b"F32\0");
                hasher.elements(&bytes_of(&other.into_floats(tensors.path(), name)?));
            }
        }
    }
    Ok(Some(hasher.finish()))
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Writes the tensors of a folder's safetensors files as one such file, each with its own bytes. Returns the bytes of the tensors.
///
/// # Errors
/// [`NnError::File`] for a file that is missing, broken or cut, and for one that cannot be written.
pub fn write_as_stored(folder: &Path, to: &Path) -> Result<u64> {
    let fail = |error: &dyn ToString| NnError::file(to, error.to_string());
    let files = TensorFiles::open(folder)?;
    let mut header = BTreeMap::from([("__metadata__", json!({"format": "pt"}))]);
    let mut end = 0;
    for (name, entry) in files.entries() {
        let begin = end;
        end += entry.n_bytes;
        let (dtype, shape) = (entry.dtype(), &entry.shape);
        header.insert(
            name,
            json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}),
        );
    }
    let mut header = serde_json::to_vec(&header).map_err(|error| fail(&error))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut written = TemporaryFile::beside(to).map_err(|error| fail(&error))?;
    let mut file = BufWriter::new(written.file());
    let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(|error| fail(&error));
    write(&(header.len() as u64).to_le_bytes())?;
    write(&header)?;
    for (_, entry) in files.entries() {
        write(&entry.bytes()?)?;
    }
    file.flush().map_err(|error| fail(&error))?;
    drop(file);
    written.publish(to).map_err(|error| fail(&error))?;
    Ok(end as u64)
}
