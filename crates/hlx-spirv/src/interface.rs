//! What a launch must bind: a shader's storage buffers and the bytes of its push constants.

use std::collections::BTreeSet;

use rspirv::spirv::{BuiltIn, Decoration, Op, StorageClass};

use crate::types::Declarations;
use crate::{Instruction, SpirvError, string};

/// A shader's interface as its module declares it, used or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The bindings of descriptor set 0 that hold a storage buffer.
    pub bindings: BTreeSet<u32>,
    /// Bytes of the push-constant block; 0 without one.
    pub push_bytes: u32,
    /// Whether it reads the number of its dispatch's workgroups (`gl_NumWorkGroups`).
    pub reads_workgroup_count: bool,
}

impl Interface {
    /// Checks that a launch with this many bindings (0, 1, 2, ...) and push-constant bytes
    /// provides all that the shader declares; more does no harm.
    ///
    /// # Errors
    /// What is missing, as one line.
    pub fn check(&self, bindings: usize, push_bytes: usize) -> Result<(), SpirvError> {
        if let Some(&last) = self.bindings.last()
            && last as usize >= bindings
        {
            return Err(SpirvError(format!(
                "{bindings} bindings, the shader declares binding {last}"
            )));
        }
        if (self.push_bytes as usize) > push_bytes {
            return Err(SpirvError(format!(
                "{push_bytes} bytes of push constants, the shader declares {}",
                self.push_bytes
            )));
        }
        Ok(())
    }
}

/// A scalar of a push-constant block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushScalar {
    /// An unsigned integer of 32 bits.
    U32,
    /// A signed integer of 32 bits.
    I32,
    /// A float of 32 bits.
    F32,
}

/// A member of a push-constant block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushConstant {
    /// Its name in the source.
    pub name: String,
    /// Its place in the block, in bytes.
    pub offset: u32,
    /// Its type, or that of an array's elements, which lie side by side.
    pub scalar: PushScalar,
    /// Elements of an array; `None` for a scalar.
    pub elements: Option<u32>,
}

/// Reads a module's interface: its storage buffers and the size of its push-constant block.
///
/// # Errors
/// A malformed module; a resource that HLX's pipelines cannot bind (an image, a uniform buffer,
/// an array of buffers, a descriptor set other than 0).
pub fn interface(words: &[u32]) -> Result<Interface, SpirvError> {
    let module = Declarations::read(words)?;
    let mut found = Interface::default();
    let variables = module.instructions.iter();
    for variable in variables.filter(|i| i.opcode == Op::Variable as u16) {
        add(&module, variable, &mut found).map_err(|reason| variable.fault(reason))?;
    }
    Ok(found)
}

fn add(module: &Declarations, variable: &Instruction, found: &mut Interface) -> Result<(), String> {
    let class = variable.words.get(2).copied();
    let class = class.and_then(StorageClass::from_u32);
    match class.ok_or("no storage class")? {
        StorageClass::Input => {
            let built_in = module.decoration(variable.ids.result, Decoration::BuiltIn);
            found.reads_workgroup_count |= built_in == Some(BuiltIn::NumWorkgroups as u32);
            Ok(())
        }
        StorageClass::Output | StorageClass::Private | StorageClass::Workgroup => Ok(()),
        StorageClass::PushConstant => {
            let block = pointee(module, variable)?;
            let bytes = module.bytes(block).and_then(|n| u32::try_from(n).ok());
            let bytes = bytes.ok_or("push constants without a fixed size")?;
            found.push_bytes = found.push_bytes.max(bytes);
            Ok(())
        }
        StorageClass::StorageBuffer | StorageClass::Uniform => {
            found.bindings.insert(buffer(module, variable)?);
            Ok(())
        }
        other => Err(format!(
            "a variable of storage class {other:?}, expected a storage buffer"
        )),
    }
}

/// The binding of a storage buffer.
fn buffer(module: &Declarations, variable: &Instruction) -> Result<u32, String> {
    let id = variable.ids.result;
    let binding = module.decoration(id, Decoration::Binding);
    let binding = binding.ok_or("a buffer without a binding")?;
    let set = module.decoration(id, Decoration::DescriptorSet);
    if set.is_some_and(|set| set != 0) {
        return Err(format!("binding {binding} is not in descriptor set 0"));
    }
    let block = pointee(module, variable)?;
    if module.find(block, Op::TypeStruct).is_none() {
        return Err(format!("binding {binding} is no single block"));
    }
    let is_uniform = variable.words.get(2) == Some(&(StorageClass::Uniform as u32));
    let stores = module.decoration(block, Decoration::BufferBlock).is_some();
    if is_uniform && !stores {
        return Err(format!(
            "binding {binding} is a uniform buffer, expected a storage buffer"
        ));
    }
    Ok(binding)
}

/// The type that a variable's pointer points to.
fn pointee(module: &Declarations, variable: &Instruction) -> Result<u32, String> {
    let pointer = module.find(variable.ids.result_type, Op::TypePointer);
    let pointee = pointer.and_then(|pointer| pointer.ids.used.first().copied());
    pointee.ok_or_else(|| format!("%{} is no pointer type", variable.ids.result_type))
}

/// Reads the members of a module's push-constant block, in order; none without a block.
///
/// # Errors
/// A malformed module; a member without a name, or that is no 32-bit scalar or array of them.
pub fn push_constants(words: &[u32]) -> Result<Vec<PushConstant>, SpirvError> {
    let module = Declarations::read(words)?;
    let variables = module.instructions.iter();
    let block = variables
        .filter(|i| i.opcode == Op::Variable as u16)
        .find(|variable| variable.words.get(2) == Some(&(StorageClass::PushConstant as u32)));
    let Some(variable) = block else {
        return Ok(Vec::new());
    };
    let block = pointee(&module, variable)?;
    let members = module.find(block, Op::TypeStruct);
    let members = members.ok_or_else(|| format!("%{block} is no structure"))?;
    let member = |(place, &id): (usize, &u32)| {
        let name = member_name(&module, block, place as u32);
        let missing = |what: &str| SpirvError(format!("push constant {place} has no {what}"));
        let (element, elements) = module.array_of_words(id).unzip();
        Ok(PushConstant {
            name: name.ok_or_else(|| missing("name"))?,
            offset: module
                .offset(block, place as u32)
                .ok_or_else(|| missing("offset"))?,
            scalar: scalar(&module, element.unwrap_or(id))
                .ok_or_else(|| missing("scalar type of 32 bits"))?,
            elements,
        })
    };
    members.ids.used.iter().enumerate().map(member).collect()
}

fn member_name(module: &Declarations, block: u32, place: u32) -> Option<String> {
    let mut names = module.instructions.iter();
    let found = names
        .find(|i| i.opcode == Op::MemberName as u16 && i.words.starts_with(&[block, place]))?;
    Some(string(&found.words[2..]).ok()?.0)
}

fn scalar(module: &Declarations, id: u32) -> Option<PushScalar> {
    if module
        .find(id, Op::TypeFloat)
        .is_some_and(|float| float.words[1] == 32)
    {
        return Some(PushScalar::F32);
    }
    match module.find(id, Op::TypeInt)?.words[..] {
        [_, 32, 0] => Some(PushScalar::U32),
        [_, 32, _] => Some(PushScalar::I32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::assemble;

    const STORAGE: u32 = StorageClass::StorageBuffer as u32;
    const PUSH: u32 = StorageClass::PushConstant as u32;

    /// Buffers at bindings 0 and 2, and a block of a u32 at 0 and a float at 8.
    fn module(class: u32, set: u32) -> Vec<u32> {
        let name = u32::from_le_bytes(*b"n\0\0\0");
        assemble(&[
            (6, &[20, 0, name]),
            (6, &[20, 1, name]),
            (71, &[30, 33, 0]),
            (71, &[30, 34, 0]),
            (71, &[31, 33, 2]),
            (71, &[31, 34, set]),
            (72, &[20, 0, 35, 0]),
            (72, &[20, 1, 35, 8]),
            (21, &[1, 32, 0]),
            (22, &[2, 32]),
            (29, &[3, 2]),
            (30, &[4, 3]),
            (32, &[5, class, 4]),
            (30, &[20, 1, 2]),
            (32, &[21, PUSH, 20]),
            (59, &[5, 30, class]),
            (59, &[5, 31, class]),
            (59, &[21, 32, PUSH]),
        ])
    }

    #[test]
    fn bindings_and_push_bytes_are_found() -> Result<(), SpirvError> {
        let found = interface(&module(STORAGE, 0))?;
        assert_eq!(found.bindings, BTreeSet::from([0, 2]));
        assert_eq!(found.push_bytes, 12);
        assert_eq!(found.check(3, 12), Ok(()));
        let reason = |bindings, bytes| found.check(bindings, bytes).expect_err("too little").0;
        assert_eq!(reason(2, 12), "2 bindings, the shader declares binding 2");
        assert_eq!(
            reason(3, 8),
            "8 bytes of push constants, the shader declares 12"
        );
        Ok(())
    }

    #[test]
    fn push_constants_have_names_offsets_and_types() -> Result<(), SpirvError> {
        let found = push_constants(&module(STORAGE, 0))?;
        let places: Vec<_> = found.iter().map(|f| (f.offset, f.scalar)).collect();
        assert_eq!(places, [(0, PushScalar::U32), (8, PushScalar::F32)]);
        assert_eq!(found[1].name, "n");
        Ok(())
    }

    #[test]
    fn resources_that_pipelines_cannot_bind_are_refused() {
        let reason = |words: &[u32]| interface(words).expect_err("refused").0;
        assert!(reason(&module(STORAGE, 1)).contains("binding 2 is not in descriptor set 0"));
        let uniform = StorageClass::Uniform as u32;
        assert!(reason(&module(uniform, 0)).contains("binding 0 is a uniform buffer"));
        let image = StorageClass::UniformConstant as u32;
        assert!(reason(&module(image, 0)).contains("storage class UniformConstant"));
    }

    #[test]
    fn a_structure_that_holds_itself_is_refused() {
        let module = assemble(&[
            (72, &[20, 0, 35, 0]),
            (30, &[20, 20]),
            (32, &[21, PUSH, 20]),
            (59, &[21, 32, PUSH]),
        ]);
        assert!(interface(&module).is_err());
    }
}
