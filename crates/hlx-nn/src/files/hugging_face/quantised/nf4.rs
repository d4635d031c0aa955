//! Matrices of bitsandbytes in NF4: each value an entry of a table of 16, times the scale of its block.
//!
//! Two values lie in a byte, the first one in its upper half. With b the block of a value, which has `blocksize` of them,
//!
//! ```text
//! value = quant_map[q] * absmax[b]
//! ```
//!
//! Quantised doubly, a scale is one byte of a table of 256 with scales of its own, one for `nested_blocksize` blocks:
//!
//! ```text
//! absmax[b] = nested_quant_map[absmax_byte[b]] * nested_absmax[b / nested_blocksize] + nested_offset
//! ```
//!
//! Each product and the sum are rounded to f32. bitsandbytes then rounds to its own type, which is not done here.
//!
//! A matrix of NF4's own table whose rows and blocks are whole blocks of 64 values can stay as it is ([`Nf4::matrix`]).

use hlx_kernels::product::blocks::NF4_NUMBERS;
use safetensors::tensor::Dtype;
use serde::Deserialize;

use super::super::files::{TensorFiles, floats};
use super::super::nf4_matrix::{BLOCK, Nf4Matrix, flushed, place_of, product};
use super::super::source::TensorSource;
use super::Part;
use crate::Result;
use crate::error::NnError;

/// What describes a matrix, in JSON.
const STATE: &str = "quant_state.bitsandbytes__nf4";
/// The other tensors of a matrix.
const PARTS: [&str; 5] = [
    STATE,
    "absmax",
    "quant_map",
    "nested_absmax",
    "nested_quant_map",
];
/// A description has no more bytes.
const MOST_STATE: usize = 1 << 16;

/// Whether a tensor is a part of a matrix of another name.
pub fn is_part(files: &TensorFiles, name: &str) -> bool {
    let stem = PARTS
        .iter()
        .find_map(|part| name.strip_suffix(part)?.strip_suffix('.'));
    stem.is_some_and(|stem| is_matrix(files, stem))
}

/// Whether a tensor is a matrix in NF4.
pub fn is_matrix(files: &TensorFiles, name: &str) -> bool {
    files.get(&format!("{name}.{STATE}")).is_some()
}

/// What a matrix states of itself.
#[derive(Deserialize)]
struct State {
    quant_type: String,
    blocksize: usize,
    shape: Vec<usize>,
    nested_blocksize: Option<usize>,
    nested_offset: Option<f32>,
}

/// A matrix of a folder.
pub struct Nf4 {
    name: String,
    state: State,
    table: Vec<f32>,
}

impl Nf4 {
    /// Reads the description of a matrix.
    ///
    /// # Errors
    /// A description that is none, or that the stored bytes do not fit.
    pub fn find(files: &TensorFiles, name: &str) -> Result<Self> {
        let fail = |reason: String| NnError::file(files.path(), reason);
        let state_name = format!("{name}.{STATE}");
        let n_state: usize = files
            .shape(&state_name)
            .unwrap_or_default()
            .iter()
            .product();
        if n_state > MOST_STATE {
            return Err(fail(format!("{state_name} has {n_state} bytes, too many")));
        }
        let state = Part::read(files, &state_name, &[Dtype::U8])?;
        let state: State = serde_json::from_slice(&state.bytes)
            .map_err(|error| fail(format!("{state_name} is no description: {error}")))?;
        if state.quant_type != "nf4" {
            let kind = &state.quant_type;
            return Err(fail(format!("{name} is of {kind}, and only nf4 is read")));
        }
        let n_values = state
            .shape
            .iter()
            .try_fold(1_usize, |n, &extent| n.checked_mul(extent));
        let n_bytes: usize = files.shape(name).unwrap_or_default().iter().product();
        let fits = n_values.is_some_and(|n| n.div_ceil(2) == n_bytes);
        if !fits || state.blocksize == 0 || state.nested_blocksize == Some(0) {
            return Err(fail(format!(
                "{name} has {n_bytes} bytes, which are no matrix of shape {:?} in blocks of {}",
                state.shape, state.blocksize
            )));
        }
        let (name, table) = (name.to_owned(), Vec::new());
        let mut found = Self { name, state, table };
        found.table = found.floats_of(files, "quant_map", 16)?;
        Ok(found)
    }

    /// The shape of a matrix that can stay as it is: of NF4's own table, with rows and blocks of whole blocks of 64 values.
    fn own_shape(&self) -> Option<[usize; 2]> {
        let bits = |table: &[f32]| table.iter().map(|one| one.to_bits()).collect::<Vec<u32>>();
        let &[rows, columns] = &self.state.shape[..] else {
            return None;
        };
        let is_whole = columns.is_multiple_of(BLOCK) && self.state.blocksize.is_multiple_of(BLOCK);
        (is_whole && bits(&self.table) == bits(&NF4_NUMBERS)).then_some([rows, columns])
    }

    /// Whether [`Nf4::matrix`] gives the matrix.
    pub fn is_own(&self) -> bool {
        self.own_shape().is_some()
    }

    /// The matrix as it is stored, with one scale per block of 64 values, if it can stay so.
    ///
    /// # Errors
    /// As [`Nf4::values`].
    pub fn matrix(&self, files: &TensorFiles) -> Result<Option<Nf4Matrix>> {
        let Some(shape) = self.own_shape() else {
            return Ok(None);
        };
        let blocks = shape[0] * shape[1] / BLOCK;
        let of_block = self.state.blocksize / BLOCK;
        let scales = self.scales(files, blocks.div_ceil(of_block))?;
        let scales = (0..blocks).map(|block| scales[block / of_block]).collect();
        let bytes = Part::read(files, &self.name, &[Dtype::U8])?.bytes;
        Ok(Some(Nf4Matrix {
            shape,
            bytes,
            scales,
        }))
    }

    /// The shape of the matrix.
    pub fn shape(&self) -> &[usize] {
        &self.state.shape
    }

    /// The values of the matrix.
    ///
    /// # Errors
    /// A file that cannot be read, a tensor that is missing, of another type or another size.
    pub fn values(&self, files: &TensorFiles) -> Result<Vec<f32>> {
        let n: usize = self.state.shape.iter().product();
        let scales = self.scales(files, n.div_ceil(self.state.blocksize))?;
        let bytes = Part::read(files, &self.name, &[Dtype::U8])?.bytes;
        let value = |at: usize| {
            let number = self.table[usize::from(place_of(&bytes, at))];
            product(number, scales[at / self.state.blocksize])
        };
        Ok((0..n).map(value).collect())
    }

    /// A part of f32 with this many elements.
    fn floats_of(&self, files: &TensorFiles, part: &str, n: usize) -> Result<Vec<f32>> {
        let part = self.part(files, part, &[Dtype::F32], n)?;
        Ok(floats(Dtype::F32, &part.bytes))
    }

    fn part(&self, files: &TensorFiles, part: &str, types: &[Dtype], n: usize) -> Result<Part> {
        let name = format!("{}.{part}", self.name);
        let found = Part::read(files, &name, types)?;
        match found.shape.iter().product::<usize>() == n {
            true => Ok(found),
            false => {
                let reason = format!("{name} has shape {:?}, expected [{n}]", found.shape);
                Err(NnError::file(files.path(), reason))
            }
        }
    }

    /// The scale of each block.
    fn scales(&self, files: &TensorFiles, n_blocks: usize) -> Result<Vec<f32>> {
        let (Some(nested), Some(offset)) = (self.state.nested_blocksize, self.state.nested_offset)
        else {
            return self.floats_of(files, "absmax", n_blocks);
        };
        let bytes = self.part(files, "absmax", &[Dtype::U8], n_blocks)?.bytes;
        let table = self.floats_of(files, "nested_quant_map", 256)?;
        let outer = self.floats_of(files, "nested_absmax", n_blocks.div_ceil(nested))?;
        let scales = bytes.iter().enumerate().map(|(block, &byte)| {
            flushed(product(table[usize::from(byte)], outer[block / nested]) + offset)
        });
        Ok(scales.collect())
    }
}
