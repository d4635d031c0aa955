//! Matrices of GPTQ and of AWQ: integers of 4 bits, eight in a word, with a scale and a zero for each group of inputs.
//!
//! With q of an input i and an output o, and g the group of i, the weight at \[o, i\] is
//!
//! ```text
//! scales[g, o] * (q[i, o] - zero[g, o])
//! ```
//!
//! GPTQ has eight inputs of one output in a word, `qweight[i / 8, o] >> 4 (i % 8)`, and eight outputs of `qzeros` in their
//! order; `g_idx[i]` is the group of an input, in any order. In its version 1 the zero is the stored one plus 1, of which
//! the lowest 4 bits count. AWQ has eight outputs of one input in a word, those of the even places before those of the odd
//! ones, in `qweight[i, o / 8]` and in `qzeros[g, o / 8]`; groups are of consecutive inputs.

use safetensors::tensor::Dtype;

use super::super::files::{TensorFiles, floats};
use super::super::nf4_matrix::product;
use super::super::source::TensorSource;
use super::Part;
use crate::Result;
use crate::error::NnError;

/// Integers in a word.
const PER_WORD: usize = 8;
/// Rows of values that are written at a time.
const ROWS: usize = 64;
/// The place in its word of each of eight outputs of AWQ.
const PLACES: [usize; PER_WORD] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Where integers lie in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Along inputs.
    Gptq {
        /// What is added to a stored zero.
        zero: u32,
    },
    /// Along outputs.
    Awq,
}

/// Whether a tensor is a part of a packed matrix.
pub fn is_part(files: &TensorFiles, name: &str) -> bool {
    let ends = [".qzeros", ".scales", ".g_idx"];
    let stem = ends.iter().find_map(|end| name.strip_suffix(end));
    stem.is_some_and(|stem| files.get(&format!("{stem}.qweight")).is_some())
}

/// A packed matrix of a folder.
pub struct Packed {
    stem: String,
    layout: Layout,
    inputs: usize,
    outputs: usize,
    groups: usize,
}

impl Packed {
    /// Finds the tensors of a matrix, and its sizes by their shapes.
    ///
    /// # Errors
    /// A tensor that is missing or does not fit the others.
    pub fn find(files: &TensorFiles, stem: &str, layout: Layout) -> Result<Self> {
        let shape = |end: &str| {
            let name = format!("{stem}.{end}");
            match files.shape(&name) {
                Some(&[rows, columns]) => Ok([rows, columns]),
                Some(shape) => Err(wrong(files, &name, shape, "two extents")),
                None => Err(NnError::file(
                    files.path(),
                    format!("the tensor {name} is missing"),
                )),
            }
        };
        let [rows, columns] = shape("qweight")?;
        let [groups, outputs] = shape("scales")?;
        let (inputs, packed_outputs) = match layout {
            Layout::Gptq { .. } => (rows.saturating_mul(PER_WORD), columns),
            Layout::Awq => (rows, columns.saturating_mul(PER_WORD)),
        };
        let fits = packed_outputs == outputs
            && outputs.is_multiple_of(PER_WORD)
            && shape("qzeros")? == [groups, outputs / PER_WORD]
            && groups > 0
            && inputs.is_multiple_of(groups);
        if !fits {
            let reason = format!(
                "{stem}: qweight, qzeros and scales of shapes {:?}, {:?} and {:?} do not fit each other",
                [rows, columns],
                shape("qzeros")?,
                [groups, outputs]
            );
            return Err(NnError::file(files.path(), reason));
        }
        Ok(Self {
            stem: stem.to_owned(),
            layout,
            inputs,
            outputs,
            groups,
        })
    }

    /// \[out, in\].
    pub fn shape(&self) -> [usize; 2] {
        [self.outputs, self.inputs]
    }

    /// The values of the matrix.
    ///
    /// # Errors
    /// A file that cannot be read, a tensor of another type, a group that is none.
    pub fn values(&self, files: &TensorFiles) -> Result<Vec<f32>> {
        let read =
            |end: &str, types: &[Dtype]| Part::read(files, &format!("{}.{end}", self.stem), types);
        let zeros = self.zeros(&read("qzeros", &[Dtype::I32])?);
        let scales = read("scales", &[Dtype::F16, Dtype::BF16, Dtype::F32])?;
        let scales = files
            .get(&format!("{}.scales", self.stem))
            .map_or_else(Vec::new, |entry| floats(entry.dtype(), &scales.bytes));
        let groups = self.groups_of_inputs(files)?;
        let words: Vec<u32> = read("qweight", &[Dtype::I32])?.words().collect();
        let mut values = vec![0.0; self.inputs * self.outputs];
        // A few rows at a time, as the words lie across them.
        for (block, rows) in values.chunks_mut(ROWS * self.inputs).enumerate() {
            for input in 0..self.inputs {
                for (row, values) in rows.chunks_exact_mut(self.inputs).enumerate() {
                    let output = block * ROWS + row;
                    let q = self.integer(&words, input, output);
                    let of_group = groups[input] * self.outputs + output;
                    let q = q as i32 - zeros[of_group];
                    values[input] = product(scales[of_group], q as f32);
                }
            }
        }
        Ok(values)
    }

    /// The stored integer of an input and an output.
    fn integer(&self, words: &[u32], input: usize, output: usize) -> u32 {
        let (word, place) = match self.layout {
            Layout::Gptq { .. } => (input / PER_WORD * self.outputs + output, input % PER_WORD),
            Layout::Awq => {
                let word = input * (self.outputs / PER_WORD) + output / PER_WORD;
                (word, PLACES[output % PER_WORD])
            }
        };
        words[word] >> (4 * place) & 15
    }

    /// The zero of each group and output.
    fn zeros(&self, part: &Part) -> Vec<i32> {
        let words: Vec<u32> = part.words().collect();
        let zero = |at: usize| {
            let (word, output) = (words[at / PER_WORD], at % PER_WORD);
            match self.layout {
                Layout::Gptq { zero } => ((word >> (4 * output) & 15) + zero) & 15,
                Layout::Awq => word >> (4 * PLACES[output]) & 15,
            }
        };
        let n = self.groups * self.outputs;
        (0..n).map(|at| zero(at) as i32).collect()
    }

    /// The group of each input.
    fn groups_of_inputs(&self, files: &TensorFiles) -> Result<Vec<usize>> {
        let name = format!("{}.g_idx", self.stem);
        let consecutive = || {
            (0..self.inputs)
                .map(|at| at / (self.inputs / self.groups))
                .collect()
        };
        if self.layout == Layout::Awq || files.get(&name).is_none() {
            return Ok(consecutive());
        }
        let part = Part::read(files, &name, &[Dtype::I32])?;
        let groups: Vec<usize> = part.words().map(|group| group as usize).collect();
        if groups.len() != self.inputs {
            return Err(wrong(
                files,
                &name,
                &part.shape,
                &format!("[{}]", self.inputs),
            ));
        }
        match groups.iter().find(|&&group| group >= self.groups) {
            Some(group) => {
                let reason = format!("{name} names the group {group} of {}", self.groups);
                Err(NnError::file(files.path(), reason))
            }
            None => Ok(groups),
        }
    }
}

fn wrong(files: &TensorFiles, name: &str, shape: &[usize], expected: &str) -> NnError {
    let reason = format!("{name} has shape {shape:?}, expected {expected}");
    NnError::file(files.path(), reason)
}
