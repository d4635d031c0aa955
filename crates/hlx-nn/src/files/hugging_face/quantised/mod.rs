//! Folders whose matrices other programs have quantised to 4 bits: GPTQ, AWQ, and NF4 of bitsandbytes. Matrices of NF4 can stay as
//! they are; the others are read by widening each to f32.
//!
//! Each value is one product of f32, of a scale and an integer or an entry of a table. That of GPTQ and of AWQ is exact:
//! a scale of f16 times an integer of 5 bits. What would be a subnormal is a zero of its sign.

mod config;
mod nf4;
mod packed;

use std::collections::BTreeMap;
use std::path::Path;

use hlx_autograd::DType;
use safetensors::tensor::Dtype;

pub(super) use self::config::{Scheme, take_scheme};

use self::nf4::Nf4;
use self::packed::Packed;
use super::files::{TensorFiles, same_half};
use super::source::{Arriving, TensorSource, check_finite};
use crate::Result;
use crate::error::NnError;

/// The tensors of a folder with those of quantised matrices as one matrix each.
pub(super) struct QuantisedFiles {
    files: TensorFiles,
    matrices: BTreeMap<String, Matrix>,
    /// The tensors that are stored as they are.
    others: Vec<String>,
}

/// A quantised matrix.
struct Matrix {
    /// \[out, in\].
    shape: Vec<usize>,
    form: Form,
}

enum Form {
    Packed(Packed),
    Nf4(Nf4),
}

/// A tensor of a file that a matrix is made of.
struct Part {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Part {
    /// Reads a tensor, which must be of one of the types.
    fn read(files: &TensorFiles, name: &str, types: &[Dtype]) -> Result<Self> {
        let wrong = |reason: String| NnError::file(files.path(), reason);
        let Some(entry) = files.get(name) else {
            return Err(wrong(format!("the tensor {name} is missing")));
        };
        if !types.contains(&entry.dtype()) {
            let found = entry.dtype();
            return Err(wrong(format!("{name} holds {found:?}, expected {types:?}")));
        }
        let shape = entry.shape.clone();
        let bytes = entry.bytes()?;
        Ok(Self { shape, bytes })
    }

    /// The words of I32, whose bits count.
    fn words(&self) -> impl Iterator<Item = u32> {
        let words = self.bytes.as_chunks::<4>().0.iter();
        words.map(|&word| u32::from_le_bytes(word))
    }
}

impl QuantisedFiles {
    /// Finds the matrices of a scheme among a folder's tensors.
    ///
    /// # Errors
    /// A matrix of which a tensor is missing, or of another shape than the others say.
    pub fn new(files: TensorFiles, scheme: &Scheme) -> Result<Self> {
        let mut matrices = BTreeMap::new();
        let mut others = Vec::new();
        for name in files.names() {
            let found = match scheme {
                Scheme::Packed(scheme) => {
                    let Some(stem) = name.strip_suffix(".qweight") else {
                        if !packed::is_part(&files, name) {
                            others.push(name.to_owned());
                        }
                        continue;
                    };
                    let packed = Packed::find(&files, stem, *scheme)?;
                    let shape = packed.shape().to_vec();
                    let form = Form::Packed(packed);
                    (format!("{stem}.weight"), Matrix { shape, form })
                }
                Scheme::Nf4 => {
                    if nf4::is_part(&files, name) {
                        continue;
                    }
                    if !nf4::is_matrix(&files, name) {
                        others.push(name.to_owned());
                        continue;
                    }
                    let nf4 = Nf4::find(&files, name)?;
                    let shape = nf4.shape().to_vec();
                    let form = Form::Nf4(nf4);
                    (name.to_owned(), Matrix { shape, form })
                }
            };
            matrices.insert(found.0, found.1);
        }
        Ok(Self {
            files,
            matrices,
            others,
        })
    }
}

impl TensorSource for QuantisedFiles {
    fn path(&self) -> &Path {
        self.files.path()
    }

    fn names(&self) -> Vec<&str> {
        let others = self.others.iter().chain(self.matrices.keys());
        others.map(String::as_str).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        match self.matrices.get(name) {
            Some(matrix) => Some(&matrix.shape),
            None => self.files.shape(name),
        }
    }

    fn values(&self, name: &str) -> Result<Vec<f32>> {
        let Some(matrix) = self.matrices.get(name) else {
            return self.files.values(name);
        };
        let values = match &matrix.form {
            Form::Packed(packed) => packed.values(&self.files)?,
            Form::Nf4(nf4) => nf4.values(&self.files)?,
        };
        check_finite(self.path(), name, &values)?;
        Ok(values)
    }

    fn in_blocks(&self, name: &str) -> bool {
        let form = self.matrices.get(name).map(|matrix| &matrix.form);
        matches!(form, Some(Form::Nf4(nf4)) if nf4.is_own())
    }

    fn arriving(&self, name: &str) -> Result<Arriving> {
        if let Some(Form::Nf4(nf4)) = self.matrices.get(name).map(|matrix| &matrix.form)
            && let Some(matrix) = nf4.matrix(&self.files)?
        {
            if !matrix.scales.iter().all(|scale| scale.is_finite()) {
                check_finite(self.path(), name, &matrix.values())?;
            }
            return Ok(Arriving::Nf4(matrix));
        }
        self.values(name).map(Arriving::Floats)
    }

    fn dtype_beside_blocks(&self) -> DType {
        // Matrices that are widened have values of f32.
        if self.matrices.keys().any(|name| !self.in_blocks(name)) {
            return DType::F32;
        }
        let of_matrices = self.others.iter().filter_map(|name| self.files.get(name));
        same_half(of_matrices.filter(|entry| entry.shape.len() == 2))
    }

    fn notes(&self) -> &[String] {
        self.files.notes()
    }

    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        let Some(matrix) = self.matrices.get(name) else {
            return self.files.check(name, shape);
        };
        match matrix.shape == shape {
            true => Ok(()),
            false => {
                let reason = format!("{name} has shape {:?}, expected {shape:?}", matrix.shape);
                Err(NnError::file(self.path(), reason))
            }
        }
    }
}
