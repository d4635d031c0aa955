//! The header of one file: its version, metadata and tensors, checked before anything else is read.
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>

use std::collections::HashSet;

use hlx_core::files::Source;

use crate::cursor::Cursor;
use crate::error::shown;
use crate::kind::BlockKind;
use crate::metadata::Metadata;

/// How every file begins.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";
/// The version that is written; version 2 has the same form.
pub(crate) const VERSION: u32 = 3;
/// The key of the alignment, and what it is without one.
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
pub(crate) const ALIGNMENT: u64 = 32;
/// The largest alignment: that of the largest pages that systems map.
const MAX_ALIGNMENT: u64 = 1 << 30;

/// The longest key, as the format's page has it.
const MAX_KEY: u64 = 65_535;
/// The longest name of a tensor, as the format's page has it.
pub(crate) const MAX_NAME: u64 = 64;
/// The most dimensions of a tensor.
pub(crate) const MAX_DIMENSIONS: u32 = 4;
/// More keys or tensors than any file has.
const MAX_ENTRIES: u64 = 1 << 24;

/// What a file's header says.
pub(crate) struct Header {
    pub metadata: Metadata,
    pub tensors: Vec<Stated>,
}

/// A tensor of a header.
#[derive(Clone, Debug)]
pub(crate) struct Stated {
    pub name: String,
    pub kind: BlockKind,
    /// Outermost first, as in PyTorch.
    pub shape: Vec<usize>,
    /// Its first byte in the file, and how many it has.
    pub first: u64,
    pub n_bytes: u64,
}

impl Header {
    /// Reads and checks a header.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that begins with the file's name.
    pub fn read(source: &Source) -> Result<Self, String> {
        let mut cursor = Cursor::new(source);
        check_version(&mut cursor)?;
        let (n_tensors, n_keys) = (cursor.u64()?, cursor.u64()?);
        for (what, n) in [("tensors", n_tensors), ("keys", n_keys)] {
            if n > MAX_ENTRIES {
                return Err(format!("states {n} {what}, expected at most {MAX_ENTRIES}"));
            }
        }
        let metadata = keys(&mut cursor, n_keys)?;
        let alignment = alignment_of(&metadata)?;
        let mut tensors = Vec::new();
        for _ in 0..n_tensors {
            tensors.push(tensor(&mut cursor)?);
        }
        let data = cursor.data(alignment);
        for tensor in &mut tensors {
            settle(tensor, alignment, data.start, data.end)?;
        }
        check_apart(&tensors)?;
        Ok(Self { metadata, tensors })
    }
}

fn check_version(cursor: &mut Cursor<'_>) -> Result<(), String> {
    if cursor.magic()? != MAGIC {
        return Err("is no GGUF file: it does not begin with `GGUF`".to_owned());
    }
    match cursor.u32()? {
        2 | 3 => Ok(()),
        other if matches!(other.swap_bytes(), 1..=3) => {
            Err("is a big-endian GGUF file; only little-endian ones are read".to_owned())
        }
        other => Err(format!(
            "has version {other} of GGUF, expected 2 or {VERSION}"
        )),
    }
}

fn keys(cursor: &mut Cursor<'_>, n: u64) -> Result<Metadata, String> {
    let mut metadata = Metadata::default();
    for _ in 0..n {
        let key = cursor.text("a key", MAX_KEY)?;
        let value = cursor.value(&key)?;
        if metadata.get(&key).is_some() {
            return Err(format!("has the key `{}` twice", shown(&key)));
        }
        metadata.set(&key, value);
    }
    Ok(metadata)
}

/// The alignment of the tensors that metadata state.
pub(crate) fn alignment_of(metadata: &Metadata) -> Result<u64, String> {
    let Some(stated) = metadata.count(ALIGNMENT_KEY)? else {
        return Ok(ALIGNMENT);
    };
    let alignment = stated as u64;
    match alignment.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&alignment) {
        true => Ok(alignment),
        false => Err(format!(
            "`{ALIGNMENT_KEY}` is {alignment}, expected a power of two from 8 to {MAX_ALIGNMENT}"
        )),
    }
}

/// A tensor whose first byte counts from the start of the data yet.
fn tensor(cursor: &mut Cursor<'_>) -> Result<Stated, String> {
    let name = cursor.text("a tensor's name", MAX_NAME)?;
    let of = |reason: String| format!("the tensor {} {reason}", shown(&name));
    let n_dimensions = cursor.u32()?;
    if !(1..=MAX_DIMENSIONS).contains(&n_dimensions) {
        return Err(of(format!(
            "has {n_dimensions} dimensions, expected 1 to {MAX_DIMENSIONS}"
        )));
    }
    let mut shape = Vec::new();
    for _ in 0..n_dimensions {
        let extent = cursor.u64()?;
        let fits = usize::try_from(extent).ok().filter(|&extent| extent > 0);
        shape.push(fits.ok_or_else(|| of(format!("has an extent of {extent}")))?);
    }
    // In files the innermost comes first.
    shape.reverse();
    let kind = BlockKind::of_id(cursor.u32()?).map_err(of)?;
    let n_bytes = bytes_of(&shape, kind).map_err(of)?;
    let first = cursor.u64()?;
    Ok(Stated {
        name,
        kind,
        shape,
        first,
        n_bytes,
    })
}

/// The bytes of a tensor.
pub(crate) fn bytes_of(shape: &[usize], kind: BlockKind) -> Result<u64, String> {
    let columns = shape.last().copied().unwrap_or(1);
    if !columns.is_multiple_of(kind.block_values()) {
        return Err(format!(
            "has rows of {columns} values, expected a multiple of {}, the block of {}",
            kind.block_values(),
            kind.name()
        ));
    }
    let rows = &shape[..shape.len().saturating_sub(1)];
    let mut bytes = kind.bytes_of(columns).map(|bytes| bytes as u64);
    for &extent in rows {
        bytes = bytes.and_then(|bytes| bytes.checked_mul(extent as u64));
    }
    let fits = bytes.filter(|&bytes| bytes <= hlx_core::sizes::LARGEST as u64);
    fits.ok_or_else(|| format!("has shape {shape:?}, which is too large"))
}

/// Turns the place within the data into one of the file, and checks it.
fn settle(tensor: &mut Stated, alignment: u64, start: u64, end: u64) -> Result<(), String> {
    let (offset, n_bytes) = (tensor.first, tensor.n_bytes);
    let of = |reason: String| format!("the tensor {} {reason}", shown(&tensor.name));
    if !offset.is_multiple_of(alignment) {
        return Err(of(format!(
            "begins at {offset} of the data, expected a multiple of {alignment}"
        )));
    }
    let first = start.checked_add(offset);
    let last = first.and_then(|first| first.checked_add(n_bytes));
    match (first, last) {
        (Some(first), Some(last)) if last <= end => {
            tensor.first = first;
            Ok(())
        }
        _ => Err(of(format!(
            "has {n_bytes} bytes from {offset} of the data on, which has {}",
            end.saturating_sub(start)
        ))),
    }
}

/// Checks that names are different and that no two tensors share a byte.
fn check_apart(tensors: &[Stated]) -> Result<(), String> {
    let mut names = HashSet::new();
    for tensor in tensors {
        if !names.insert(&tensor.name) {
            return Err(format!("has the tensor {} twice", shown(&tensor.name)));
        }
    }
    let mut in_order: Vec<&Stated> = tensors.iter().collect();
    in_order.sort_by_key(|tensor| tensor.first);
    for pair in in_order.windows(2) {
        if pair[0].first + pair[0].n_bytes > pair[1].first {
            let [one, two] = [pair[0], pair[1]].map(|tensor| shown(&tensor.name));
            return Err(format!("the tensors {one} and {two} overlap"));
        }
    }
    Ok(())
}
