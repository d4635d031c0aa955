//! The entry point: its stage, its interface, its workgroup, and the capabilities around it.

use std::collections::HashSet;

use hlx_spirv::string;

use super::grammar::op;
use super::module::{Instruction, Module};
use super::types::{Type, Types, decoration};

/// Invocations of a workgroup: literal, or constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LocalSize {
    Literal([u32; 3]),
    Constants([u32; 3]),
}

/// Finds the entry point's function and checks the others too.
pub(super) fn entry_point(module: &Module, types: &Types, entry: &str) -> Result<u32, String> {
    const COMPUTE: u32 = 5;
    let mut found = None;
    let mut names = Vec::new();
    for instruction in module
        .instructions
        .iter()
        .filter(|i| i.opcode == op::EntryPoint)
    {
        let (name, _) = string(&instruction.words[2..])?;
        let (model, function) = (instruction.words[0], instruction.ids.used[0]);
        let definition = module.definition(function);
        let void = definition.opcode == op::Function
            && match types.get(definition.words[3])? {
                Type::Function { result, parameters } => {
                    parameters.is_empty() && *types.get(*result)? == Type::Void
                }
                _ => false,
            };
        if !void {
            return Err(instruction.fault(format!("%{function} is no function void()")));
        }
        check_interface(module, instruction).map_err(|reason| instruction.fault(reason))?;
        if name == entry {
            if model != COMPUTE {
                let reason = format!("its stage is {}, expected compute", stage(model));
                return Err(instruction.fault(reason));
            }
            if found.replace(function).is_some() {
                return Err(instruction.fault(format!("a second `{name}`")));
            }
        }
        names.push(format!("`{name}`"));
    }
    let called: HashSet<u32> = super::functions::calls(module)
        .into_values()
        .flatten()
        .collect();
    let function = found.ok_or_else(|| match names.len() {
        0 => format!("no entry point `{entry}`: it has none"),
        _ => format!("no entry point `{entry}`: it has {}", names.join(", ")),
    })?;
    if called.contains(&function) {
        return Err(format!("the entry point `{entry}` is called by a function"));
    }
    if names.len() > 1 {
        return Err(format!("{} entry points, expected one", names.len()));
    }
    Ok(function)
}

/// The interface lists global variables, each once; from SPIR-V 1.4 on, all that are used.
fn check_interface(module: &Module, entry: &Instruction) -> Result<(), String> {
    let first = module
        .functions
        .first()
        .map_or(usize::MAX, |f| f.definition);
    let mut listed = HashSet::new();
    for &id in &entry.ids.used[1..] {
        let variable = module.definition(id);
        if variable.opcode != op::Variable || variable.index >= first {
            return Err(format!("its interface %{id} is no global variable"));
        }
        if !listed.insert(id) {
            return Err(format!("its interface lists %{id} twice"));
        }
    }
    if module.version < (1, 4) {
        return Ok(());
    }
    for id in module
        .instructions
        .iter()
        .skip(first)
        .flat_map(|i| &i.ids.used)
    {
        let variable = module.definition(*id);
        let global = variable.opcode == op::Variable && variable.index < first;
        if global && !listed.contains(id) {
            return Err(format!("its interface does not list %{id}"));
        }
    }
    Ok(())
}

fn stage(model: u32) -> &'static str {
    match model {
        0 => "vertex",
        1 => "tessellation control",
        2 => "tessellation evaluation",
        3 => "geometry",
        4 => "fragment",
        6 => "an OpenCL kernel",
        _ => "unknown",
    }
}

/// The capabilities: those of a compute shader of 32-bit and, where it declares them, 64-bit numbers.
pub(super) fn capabilities(module: &Module) -> Result<Vec<u32>, String> {
    let mut found = Vec::new();
    for instruction in &module.instructions {
        match instruction.opcode {
            op::Capability => {
                let number = instruction.words[0];
                if capability_name(number).is_none() {
                    let reason = format!("capability {number} is not supported");
                    return Err(instruction.fault(reason));
                }
                found.push(number);
            }
            op::Extension => {
                const KNOWN: [&str; 3] = [
                    "SPV_KHR_storage_buffer_storage_class",
                    "SPV_KHR_float_controls",
                    "SPV_KHR_no_integer_wrap_decoration",
                ];
                let (name, _) = string(&instruction.words)?;
                if !KNOWN.contains(&name.as_str()) {
                    return Err(instruction.fault(format!("`{name}` is not supported")));
                }
            }
            op::ExtInstImport => {
                let (name, _) = string(&instruction.words[1..])?;
                if name != "GLSL.std.450" {
                    return Err(instruction.fault(format!("`{name}` is not supported")));
                }
            }
            op::MemoryModel => {
                const LOGICAL: u32 = 0;
                const GLSL_450: u32 = 1;
                if instruction.words != [LOGICAL, GLSL_450] {
                    return Err(instruction.fault("expected Logical GLSL450"));
                }
            }
            _ => {}
        }
    }
    require(module, &found)?;
    Ok(found)
}

/// The name of a capability that contracts may declare.
fn capability_name(number: u32) -> Option<&'static str> {
    Some(match number {
        1 => "Shader",
        10 => "Float64",
        11 => "Int64",
        61 => "GroupNonUniform",
        62 => "GroupNonUniformVote",
        64 => "GroupNonUniformBallot",
        65 => "GroupNonUniformShuffle",
        66 => "GroupNonUniformShuffleRelative",
        4466 => "SignedZeroInfNanPreserve",
        _ => return None,
    })
}

/// Every instruction's capability is declared.
fn require(module: &Module, declared: &[u32]) -> Result<(), String> {
    let need = |instruction: &Instruction, number: u32| {
        if declared.contains(&number) {
            return Ok(());
        }
        let name = capability_name(number).unwrap_or("?");
        Err(instruction.fault(format!(
            "it needs the capability {name}, which is not declared"
        )))
    };
    if !declared.contains(&1) {
        return Err("the capability Shader is not declared".to_owned());
    }
    for instruction in &module.instructions {
        match (instruction.opcode, &instruction.words[..]) {
            (op::TypeInt, [_, 64, _]) => need(instruction, 11)?,
            (op::TypeFloat, [_, 64]) => need(instruction, 10)?,
            (op::GroupNonUniformElect, _) => need(instruction, 61)?,
            (op::GroupNonUniformAll | op::GroupNonUniformAny, _) => need(instruction, 62)?,
            (op::GroupNonUniformBroadcast..=op::GroupNonUniformBallot, _) => need(instruction, 64)?,
            (op::GroupNonUniformShuffle | op::GroupNonUniformShuffleXor, _) => {
                need(instruction, 65)?
            }
            (op::GroupNonUniformShuffleUp | op::GroupNonUniformShuffleDown, _) => {
                need(instruction, 66)?;
            }
            (op::ExecutionMode, [_, 4461, ..]) => need(instruction, 4466)?,
            _ => {}
        }
        let version = module.version;
        let group = (op::GroupNonUniformElect..=op::GroupNonUniformShuffleDown)
            .contains(&instruction.opcode);
        if (group && version < (1, 3))
            || (instruction.opcode == op::CopyLogical && version < (1, 4))
        {
            return Err(instruction.fault(format!("SPIR-V {}.{} lacks it", version.0, version.1)));
        }
    }
    Ok(())
}

/// The workgroup's size: a constant decorated so, else the execution mode.
pub(super) fn local_size(module: &Module, function: u32) -> Result<LocalSize, String> {
    const LOCAL_SIZE: u32 = 17;
    const SIGNED_ZERO_INF_NAN_PRESERVE: u32 = 4461;
    const WORKGROUP_SIZE: u32 = 25;
    let mut literal = None;
    for instruction in module
        .instructions
        .iter()
        .filter(|i| i.opcode == op::ExecutionMode)
    {
        if instruction.ids.used[0] != function {
            return Err(instruction.fault("it is for no entry point"));
        }
        match instruction.words[1..] {
            [LOCAL_SIZE, x, y, z] if literal.is_none() => literal = Some([x, y, z]),
            [SIGNED_ZERO_INF_NAN_PRESERVE, 32 | 64] => {}
            [mode, ..] => return Err(instruction.fault(format!("mode {mode} is not supported"))),
            [] => return Err(instruction.fault("no mode")),
        }
    }
    let mut built = module.instructions.iter().filter(|instruction| {
        let id = instruction.ids.result;
        instruction.opcode != op::Variable
            && module.decoration(id, decoration::BUILT_IN) == Some(WORKGROUP_SIZE)
    });
    if let Some(constant) = built.next() {
        let composite = matches!(
            constant.opcode,
            op::ConstantComposite | op::SpecConstantComposite
        );
        return match constant.ids.used[..] {
            [x, y, z] if composite => Ok(LocalSize::Constants([x, y, z])),
            _ => Err(constant.fault("the workgroup's size is no constant of three")),
        };
    }
    let size = literal.ok_or("the entry point has no LocalSize")?;
    Ok(LocalSize::Literal(size))
}
