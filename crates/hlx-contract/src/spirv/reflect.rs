//! The interface of a module's entry point: bindings, push constants, specialization constants,
//! workgroup size and shared memory.

use std::collections::BTreeMap;

use super::constants::{ConstantInfo, Values};
use super::entry::LocalSize;
use super::layout::ScalarKind;

/// A storage buffer that a shader declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingInfo {
    /// The variable's name, or its block's; the shortest where several views have one each;
    /// `unnamed` where the module has no names.
    pub name: String,
    /// The binding in descriptor set 0.
    pub binding: u32,
    /// What its elements are, for each declaration of the binding; several may view one buffer.
    pub elements: Vec<ScalarKind>,
    /// Bytes that every buffer there must have.
    pub min_bytes: u64,
    /// The shader loads from it.
    pub reads: bool,
    /// The shader stores to it.
    pub writes: bool,
}

/// A variable in shared memory: bytes of its innermost elements and the ids of its lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub bytes: u64,
    pub lengths: Vec<u32>,
}

/// The interface of one entry point of a validated module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// The bindings of descriptor set 0, by number.
    pub bindings: BTreeMap<u32, BindingInfo>,
    /// The words of the push constants: what lies at each, `None` for padding.
    pub push_constants: Vec<Option<ScalarKind>>,
    /// The specialization constants by id.
    pub constants: BTreeMap<u32, ConstantInfo>,
    /// The capabilities that it declares.
    pub capabilities: Vec<u32>,
    pub(super) local_size: LocalSize,
    pub(super) shared: Vec<Measured>,
    pub(super) values: Values,
}

impl Reflection {
    /// Invocations of a workgroup in x, y and z, under these specialization constants.
    ///
    /// # Errors
    /// A size that is not a constant this crate can compute.
    pub fn workgroup_size(&self, constants: &[(u32, u32)]) -> Result<[u32; 3], String> {
        match self.local_size {
            LocalSize::Literal(size) => Ok(size),
            LocalSize::Constants(ids) => {
                let mut size = [0; 3];
                for (extent, id) in size.iter_mut().zip(ids) {
                    *extent = self.values.evaluate(id, constants, 0)?;
                }
                Ok(size)
            }
        }
    }

    /// Bytes of shared memory of a workgroup, under these specialization constants.
    ///
    /// # Errors
    /// As [`Reflection::workgroup_size`].
    pub fn shared_bytes(&self, constants: &[(u32, u32)]) -> Result<u64, String> {
        let mut total = 0_u64;
        for variable in &self.shared {
            let mut bytes = variable.bytes;
            for &length in &variable.lengths {
                let length = self.values.evaluate(length, constants, 0)?;
                if length == 0 {
                    return Err("an array in shared memory has no elements".to_owned());
                }
                bytes = bytes.saturating_mul(u64::from(length));
            }
            total = total.saturating_add(bytes);
        }
        Ok(total)
    }
}
