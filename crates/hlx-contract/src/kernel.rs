//! Contract 901: a kernel, and what is wrong with one by itself.

use hlx_store::{Dtype, Handle};
use serde::{Deserialize, Serialize};

use super::ContractError;
use super::scalar::{Number, Scalar};

/// A kernel: one dispatch of a shader over tensors (contract 901).
///
/// Specialization constants, inputs and outputs are in ascending order of their ids and
/// bindings, so that one kernel has one encoding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// 901.
    pub contract: Number<901>,
    /// Its name in messages.
    pub name: String,
    /// The handle of its [`Shader`](super::Shader).
    pub shader: Handle,
    /// Invocations of a workgroup in x, y and z, as the shader has them.
    pub workgroup_size: [u32; 3],
    /// Workgroups in x, y and z.
    pub workgroups: [u32; 3],
    /// Values of specialization constants; the others have their defaults.
    pub specialization: Vec<SpecializationConstant>,
    /// The words of the push constants, padding as `{"u32": 0}`.
    pub push_constants: Vec<Scalar>,
    /// Tensors that it reads.
    pub inputs: Vec<Input>,
    /// Tensors that it makes; they start as zeros.
    pub outputs: Vec<Output>,
}

/// The value of a specialization constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecializationConstant {
    /// Its id in the shader.
    pub id: u32,
    /// Its value.
    pub value: Scalar,
}

/// A tensor that a kernel reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name in messages and links.
    pub name: String,
    /// Its binding in descriptor set 0.
    pub binding: u32,
    /// What an element is: f32, u32 or i32.
    pub dtype: Dtype,
    /// The extents, outermost first.
    pub shape: Vec<u64>,
    /// The tensor in the content store; none where a pipeline links an output here.
    pub tensor: Option<Handle>,
}

/// A tensor that a kernel makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Its name in messages and links.
    pub name: String,
    /// Its binding in descriptor set 0.
    pub binding: u32,
    /// What an element is: f32, u32 or i32.
    pub dtype: Dtype,
    /// The extents, outermost first.
    pub shape: Vec<u64>,
}

/// What an input and an output have in common.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub name: &'a str,
    pub binding: u32,
    pub dtype: Dtype,
    pub shape: &'a [u64],
    pub is_output: bool,
}

impl Bound<'_> {
    /// The number of elements; `None` past 2^62.
    pub fn n_elements(&self) -> Option<u64> {
        let product = self
            .shape
            .iter()
            .try_fold(1_u64, |n, &extent| n.checked_mul(extent));
        product.filter(|&n| n < 1 << 62)
    }
}

impl Kernel {
    /// The inputs and outputs in the order of their bindings.
    pub(crate) fn bound(&self) -> Vec<Bound<'_>> {
        let inputs = self.inputs.iter().map(|input| Bound {
            name: &input.name,
            binding: input.binding,
            dtype: input.dtype,
            shape: &input.shape,
            is_output: false,
        });
        let outputs = self.outputs.iter().map(|output| Bound {
            name: &output.name,
            binding: output.binding,
            dtype: output.dtype,
            shape: &output.shape,
            is_output: true,
        });
        let mut bound: Vec<Bound<'_>> = inputs.chain(outputs).collect();
        bound.sort_by_key(|bound| bound.binding);
        bound
    }

    /// The specialization constants as ids and words.
    pub(crate) fn constants(&self) -> Vec<(u32, u32)> {
        let pair = |constant: &SpecializationConstant| (constant.id, constant.value.word());
        self.specialization.iter().map(pair).collect()
    }

    /// The bytes of the push constants.
    pub(crate) fn push_bytes(&self) -> Vec<u8> {
        self.push_constants
            .iter()
            .flat_map(|scalar| scalar.word().to_le_bytes())
            .collect()
    }

    pub(crate) fn binding_error(
        &self,
        bound: &Bound<'_>,
        reason: impl Into<String>,
    ) -> ContractError {
        ContractError::Binding {
            contract: self.name.clone(),
            binding: bound.binding,
            name: bound.name.to_owned(),
            reason: reason.into(),
        }
    }

    /// Checks what can be seen without the shader.
    pub(crate) fn check(&self) -> Result<(), ContractError> {
        let wrong = |reason: String| Err(ContractError::invalid(&self.name, reason));
        check_name("a kernel", &self.name)?;
        let ascends = |mut numbers: Vec<u32>| {
            let before = numbers.clone();
            numbers.sort_unstable();
            numbers.dedup();
            numbers == before
        };
        if !ascends(
            self.specialization
                .iter()
                .map(|constant| constant.id)
                .collect(),
        ) {
            return wrong(
                "specialization constants are not in ascending order of their ids".to_owned(),
            );
        }
        if !ascends(self.inputs.iter().map(|input| input.binding).collect()) {
            return wrong("inputs are not in ascending order of their bindings".to_owned());
        }
        if !ascends(self.outputs.iter().map(|output| output.binding).collect()) {
            return wrong("outputs are not in ascending order of their bindings".to_owned());
        }
        if self.outputs.is_empty() {
            return wrong("no outputs".to_owned());
        }
        if self.workgroups.contains(&0) {
            return wrong(format!(
                "{:?} workgroups: nothing would run",
                self.workgroups
            ));
        }
        let bound = self.bound();
        for (place, one) in bound.iter().enumerate() {
            check_name("an input or output", one.name)?;
            if bound[..place].iter().any(|other| other.name == one.name) {
                return Err(self.binding_error(one, "a second input or output of this name"));
            }
            if bound[..place]
                .iter()
                .any(|other| other.binding == one.binding)
            {
                return Err(self.binding_error(one, "a second input or output of this binding"));
            }
            if !matches!(one.dtype, Dtype::F32 | Dtype::U32 | Dtype::I32) {
                let reason = format!("dtype {}, expected f32, u32 or i32", one.dtype);
                return Err(self.binding_error(one, reason));
            }
            if one.n_elements().is_none_or(|n| n == 0) || one.shape.len() > 16 {
                let reason = format!(
                    "shape {:?}, expected at most 16 extents and an element",
                    one.shape
                );
                return Err(self.binding_error(one, reason));
            }
        }
        Ok(())
    }
}

/// Names are for people: short, printable, no line breaks.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), ContractError> {
    let printable = name
        .chars()
        .all(|letter| !letter.is_control() && !letter.is_whitespace());
    if printable && (1..=128).contains(&name.len()) {
        return Ok(());
    }
    let reason = "expected a name of 1 to 128 bytes without spaces";
    Err(ContractError::invalid(
        &format!("{what} `{}`", name.escape_debug()),
        reason,
    ))
}
