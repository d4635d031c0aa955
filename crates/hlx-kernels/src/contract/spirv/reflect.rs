//! What a module's entry point asks for: bindings, push constants, specialization constants,
//! workgroup size and shared memory.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::access::Accesses;
use super::grammar::{self, op};
use super::layout::{Layout, ScalarKind};
use super::module::Module;
use super::types::{Scalar, Type, Types, class, decoration};

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

/// A specialization constant that a shader declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstantInfo {
    /// Its name; empty where the module has none.
    pub name: String,
    /// What it is.
    pub kind: ScalarKind,
    /// Its bits without specialization; 1 or 0 for a truth value.
    pub default: u32,
}

/// What one entry point of a validated module asks for.
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
    local_size: LocalSize,
    shared: Vec<Measured>,
    values: HashMap<u32, Value>,
}

/// Invocations of a workgroup: literal, or constants.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LocalSize {
    Literal([u32; 3]),
    Constants([u32; 3]),
}

/// A variable in shared memory: bytes of its innermost elements and the ids of its lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Measured {
    bytes: u64,
    lengths: Vec<u32>,
}

/// How a constant is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Word(u32),
    Specialized {
        id: u32,
        default: u32,
    },
    Computed {
        opcode: u16,
        operands: Vec<u32>,
        literals: Vec<u32>,
    },
    Composite(Vec<u32>),
}

impl Reflection {
    /// Invocations of a workgroup in x, y and z, under these specialization constants.
    ///
    /// # Errors
    /// A size that is no constant this crate can compute.
    pub fn workgroup_size(&self, constants: &[(u32, u32)]) -> Result<[u32; 3], String> {
        match self.local_size {
            LocalSize::Literal(size) => Ok(size),
            LocalSize::Constants(ids) => {
                let mut size = [0; 3];
                for (extent, id) in size.iter_mut().zip(ids) {
                    *extent = self.evaluate(id, constants, 0)?;
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
                let length = self.evaluate(length, constants, 0)?;
                if length == 0 {
                    return Err("an array in shared memory has no elements".to_owned());
                }
                bytes = bytes.saturating_mul(u64::from(length));
            }
            total = total.saturating_add(bytes);
        }
        Ok(total)
    }

    /// Computes an integer constant.
    fn evaluate(&self, id: u32, constants: &[(u32, u32)], depth: usize) -> Result<u32, String> {
        const MAX_DEPTH: usize = 64;
        let unknown = || format!("%{id} is a constant that is not computed here");
        if depth > MAX_DEPTH {
            return Err(unknown());
        }
        match self.values.get(&id).ok_or_else(unknown)? {
            Value::Word(word) => Ok(*word),
            Value::Specialized { id, default } => {
                let given = constants.iter().find(|(given, _)| given == id);
                Ok(given.map_or(*default, |(_, word)| *word))
            }
            Value::Composite(_) => Err(unknown()),
            Value::Computed {
                opcode: op::CompositeExtract,
                operands,
                literals,
            } => {
                let Some(Value::Composite(parts)) = self.values.get(&operands[0]) else {
                    return Err(unknown());
                };
                let part = literals.first().and_then(|&at| parts.get(at as usize));
                self.evaluate(*part.ok_or_else(unknown)?, constants, depth + 1)
            }
            Value::Computed {
                opcode, operands, ..
            } => {
                let mut words = Vec::with_capacity(operands.len());
                for &operand in operands {
                    words.push(self.evaluate(operand, constants, depth + 1)?);
                }
                compute(*opcode, &words).ok_or_else(unknown)
            }
        }
    }
}

/// Carries out a constant's operation on words.
fn compute(opcode: u16, words: &[u32]) -> Option<u32> {
    let found = match (opcode, words) {
        (op::IAdd, &[a, b]) => a.wrapping_add(b),
        (op::ISub, &[a, b]) => a.wrapping_sub(b),
        (op::IMul, &[a, b]) => a.wrapping_mul(b),
        (op::UDiv, &[a, b]) => a.checked_div(b)?,
        (op::UMod, &[a, b]) => a.checked_rem(b)?,
        (op::SDiv, &[a, b]) => (a as i32).checked_div(b as i32)? as u32,
        (op::ShiftLeftLogical, &[a, b]) => a.checked_shl(b)?,
        (op::ShiftRightLogical, &[a, b]) => a.checked_shr(b)?,
        (op::BitwiseAnd | op::LogicalAnd, &[a, b]) => a & b,
        (op::BitwiseOr | op::LogicalOr, &[a, b]) => a | b,
        (op::BitwiseXor | op::LogicalNotEqual, &[a, b]) => a ^ b,
        (op::LogicalNot, &[a]) => a ^ 1,
        (op::Not, &[a]) => !a,
        (op::SNegate, &[a]) => a.wrapping_neg(),
        (op::Select, &[condition, a, b]) => [b, a][usize::from(condition != 0)],
        (op::IEqual | op::LogicalEqual, &[a, b]) => u32::from(a == b),
        (op::INotEqual, &[a, b]) => u32::from(a != b),
        (op::ULessThan, &[a, b]) => u32::from(a < b),
        (op::UGreaterThan, &[a, b]) => u32::from(a > b),
        (op::ULessThanEqual, &[a, b]) => u32::from(a <= b),
        (op::UGreaterThanEqual, &[a, b]) => u32::from(a >= b),
        _ => return None,
    };
    Some(found)
}

/// Reads what an entry point asks for, and checks it.
pub(super) fn reflect(module: &Module, types: &Types, entry: &str) -> Result<Reflection, String> {
    let function = entry_point(module, types, entry)?;
    let (constants, values) = read_constants(module, types)?;
    let mut reflection = Reflection {
        bindings: BTreeMap::new(),
        push_constants: Vec::new(),
        constants,
        capabilities: capabilities(module)?,
        local_size: local_size(module, function)?,
        shared: Vec::new(),
        values,
    };
    let accesses = Accesses::of(module, types);
    for instruction in &module.instructions {
        if instruction.opcode == op::Function {
            break;
        }
        if instruction.opcode == op::Variable {
            let id = instruction.ids.result;
            let named = |reason: String| instruction.fault(format!("%{id}: {reason}"));
            let variable = Variable { module, types, id };
            variable
                .read(instruction, &accesses, &mut reflection)
                .map_err(named)?;
        }
    }
    Ok(reflection)
}

/// Finds the entry point's function and checks the others too.
fn entry_point(module: &Module, types: &Types, entry: &str) -> Result<u32, String> {
    const COMPUTE: u32 = 5;
    let mut found = None;
    let mut names = Vec::new();
    for instruction in module
        .instructions
        .iter()
        .filter(|i| i.opcode == op::EntryPoint)
    {
        let (name, _) = grammar::string(&instruction.words[2..])?;
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
fn check_interface(module: &Module, entry: &super::module::Instruction) -> Result<(), String> {
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

/// The capabilities: those of a compute shader of 32-bit and, where it asks, 64-bit numbers.
fn capabilities(module: &Module) -> Result<Vec<u32>, String> {
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
                let (name, _) = grammar::string(&instruction.words)?;
                if !KNOWN.contains(&name.as_str()) {
                    return Err(instruction.fault(format!("`{name}` is not supported")));
                }
            }
            op::ExtInstImport => {
                let (name, _) = grammar::string(&instruction.words[1..])?;
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
pub(super) fn capability_name(number: u32) -> Option<&'static str> {
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
    let need = |instruction: &super::module::Instruction, number: u32| {
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

fn local_size(module: &Module, function: u32) -> Result<LocalSize, String> {
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

type Constants = (BTreeMap<u32, ConstantInfo>, HashMap<u32, Value>);

fn read_constants(module: &Module, types: &Types) -> Result<Constants, String> {
    let (mut constants, mut values) = (BTreeMap::new(), HashMap::new());
    for instruction in &module.instructions {
        let (id, words) = (instruction.ids.result, &instruction.words);
        let kind = types.shape(instruction.ids.result_type);
        let default = match instruction.opcode {
            op::ConstantTrue | op::SpecConstantTrue => Some(1),
            op::ConstantFalse | op::SpecConstantFalse => Some(0),
            op::Constant | op::SpecConstant if words.len() == 3 => Some(words[2]),
            _ => None,
        };
        let spec_id = module.decoration(id, decoration::SPEC_ID);
        let special = (op::SpecConstantTrue..=op::SpecConstant).contains(&instruction.opcode);
        if let Some(spec_id) = spec_id.filter(|_| id != 0) {
            if !special {
                return Err(instruction.fault("a SpecId on what is not specialized"));
            }
            let kind = kind.and_then(|(scalar, _)| ScalarKind::of(scalar));
            let (Some(kind), Some(default)) = (kind, default) else {
                let reason = "a specialization constant that is not of 32 bits";
                return Err(instruction.fault(reason));
            };
            let name = module.name(id).unwrap_or_default().to_owned();
            let info = ConstantInfo {
                name,
                kind,
                default,
            };
            if constants.insert(spec_id, info).is_some() {
                return Err(instruction.fault(format!("a second constant of SpecId {spec_id}")));
            }
        }
        let value = match (default, spec_id) {
            (Some(default), Some(id)) => Value::Specialized { id, default },
            (Some(word), None) => Value::Word(word),
            (None, _) => match instruction.opcode {
                op::ConstantComposite | op::SpecConstantComposite => {
                    Value::Composite(instruction.ids.used.clone())
                }
                op::SpecConstantOp => {
                    let wide = kind.is_some_and(|(scalar, count)| scalar.width() > 32 || count > 1);
                    if wide {
                        continue;
                    }
                    let operands = instruction.ids.used.clone();
                    let literals = words[3 + operands.len().min(words.len() - 3)..].to_vec();
                    Value::Computed {
                        opcode: words[2] as u16,
                        operands,
                        literals,
                    }
                }
                _ => continue,
            },
        };
        values.insert(id, value);
    }
    Ok((constants, values))
}

/// One global variable.
struct Variable<'a> {
    module: &'a Module,
    types: &'a Types,
    id: u32,
}

impl Variable<'_> {
    fn read(
        &self,
        instruction: &super::module::Instruction,
        accesses: &Accesses,
        reflection: &mut Reflection,
    ) -> Result<(), String> {
        let (class, pointee) = self.types.pointer(instruction.ids.result_type)?;
        if instruction.words[2] != class {
            return Err(format!(
                "class {}, its type says {class}",
                instruction.words[2]
            ));
        }
        let initial = instruction.ids.used.first().copied();
        if let Some(initial) = initial {
            let fits = super::types::is_constant(self.module, initial)
                && self.types.of_value(self.module, initial)? == pointee;
            if class != class::PRIVATE || !fits {
                return Err(format!("an initial value %{initial}"));
            }
        }
        match class {
            class::INPUT => self.built_in(pointee),
            class::PRIVATE if self.types.is_storable(pointee) => Ok(()),
            class::WORKGROUP if self.types.is_storable(pointee) => {
                let (bytes, lengths) = self.measure(pointee)?;
                reflection.shared.push(Measured { bytes, lengths });
                Ok(())
            }
            class::PUSH_CONSTANT => {
                let layout = self.block(pointee, decoration::BLOCK)?;
                if !reflection.push_constants.is_empty() {
                    return Err("a second block of push constants".to_owned());
                }
                let words = layout.words.ok_or("push constants without a fixed size")?;
                reflection.push_constants = words;
                Ok(())
            }
            class::STORAGE_BUFFER => self.buffer(pointee, decoration::BLOCK, accesses, reflection),
            class::UNIFORM => self.buffer(pointee, decoration::BUFFER_BLOCK, accesses, reflection),
            _ => Err(format!("a variable of class {class} and type %{pointee}")),
        }
    }

    fn built_in(&self, pointee: u32) -> Result<(), String> {
        const VECTORS: [u32; 4] = [24, 26, 27, 28];
        const WORDS: [u32; 1] = [29];
        const OF_SUBGROUP: [u32; 4] = [36, 38, 40, 41];
        let number = self.module.decoration(self.id, decoration::BUILT_IN);
        let number = number.ok_or("an input that is not built in")?;
        let scalar = self.types.shape(pointee);
        let count = match number {
            _ if VECTORS.contains(&number) => 3,
            _ if WORDS.contains(&number) || OF_SUBGROUP.contains(&number) => 1,
            _ => return Err(format!("the built-in input {number} is not supported")),
        };
        let group = self.module.instructions.iter();
        let declared = group
            .filter(|i| i.opcode == op::Capability)
            .any(|i| i.words[0] == 61);
        if OF_SUBGROUP.contains(&number) && !declared {
            return Err(
                "it needs the capability GroupNonUniform, which is not declared".to_owned(),
            );
        }
        match scalar {
            Some((Scalar::Int { width: 32, .. }, found)) if found == count => Ok(()),
            _ => Err(format!("the built-in input {number} with another type")),
        }
    }

    /// Bytes of the innermost elements, and the lengths of the arrays around them.
    fn measure(&self, mut at: u32) -> Result<(u64, Vec<u32>), String> {
        let mut lengths = Vec::new();
        while let Type::Array { element, length } = self.types.get(at)? {
            lengths.push(*length);
            at = *element;
        }
        Ok((self.packed(at)?, lengths))
    }

    /// Bytes of a value in shared memory, counted as drivers do at most: vectors of three as four.
    fn packed(&self, id: u32) -> Result<u64, String> {
        if let Some((scalar, count)) = self.types.shape(id) {
            let bytes = u64::from(scalar.width().max(32) / 8);
            return Ok(bytes * u64::from(count.next_power_of_two()));
        }
        match self.types.get(id)? {
            Type::Array { element, length } => {
                let length = super::types::constant_word(self.module, *length);
                let length = length.ok_or("an array of specialized length in a structure")?;
                Ok(self.packed(*element)?.saturating_mul(u64::from(length)))
            }
            Type::Struct { members } => {
                let mut total = 0_u64;
                for &member in members {
                    total = total.saturating_add(self.packed(member)?);
                }
                Ok(total)
            }
            _ => Err(format!("type %{id} in shared memory")),
        }
    }

    fn block(&self, pointee: u32, expected: u32) -> Result<Layout, String> {
        if self.module.decoration(pointee, expected).is_none() {
            return Err(format!("its type %{pointee} is not decorated as a block"));
        }
        Layout::of_block(self.module, self.types, pointee)
    }

    fn buffer(
        &self,
        pointee: u32,
        expected: u32,
        accesses: &Accesses,
        reflection: &mut Reflection,
    ) -> Result<(), String> {
        let set = self.module.decoration(self.id, decoration::DESCRIPTOR_SET);
        let binding = self.module.decoration(self.id, decoration::BINDING);
        let binding = binding.ok_or("a buffer without a binding")?;
        let own = self
            .module
            .name(self.id)
            .or_else(|| self.module.name(pointee));
        let name = own.unwrap_or("unnamed").to_owned();
        if set != Some(0) {
            let set = set.map_or("no".to_owned(), |set| set.to_string());
            return Err(format!(
                "binding {binding} `{name}` is in descriptor set {set}, expected 0"
            ));
        }
        const MAX_BINDINGS: u32 = 64;
        if binding >= MAX_BINDINGS {
            return Err(format!(
                "binding {binding} `{name}`, expected less than {MAX_BINDINGS}"
            ));
        }
        let layout = self.block(pointee, expected)?;
        let access = accesses.of_variable(self.id);
        let info = reflection
            .bindings
            .entry(binding)
            .or_insert_with(|| BindingInfo {
                name: name.clone(),
                binding,
                elements: Vec::new(),
                min_bytes: 0,
                reads: false,
                writes: false,
            });
        if name.len() < info.name.len() {
            info.name = name;
        }
        let denied = |number| {
            let member = |m| self.module.member_decoration(pointee, m, number).is_some();
            self.module.decoration(self.id, number).is_some() || (0..layout.n_members).all(member)
        };
        if access.writes && denied(decoration::NON_WRITABLE) {
            return Err(format!(
                "binding {binding} `{}` is readonly and is stored to",
                info.name
            ));
        }
        if access.reads && denied(decoration::NON_READABLE) {
            return Err(format!(
                "binding {binding} `{}` is writeonly and is loaded from",
                info.name
            ));
        }
        for kind in layout.kinds {
            if !info.elements.contains(&kind) {
                info.elements.push(kind);
            }
        }
        info.min_bytes = info.min_bytes.max(layout.min_bytes);
        info.reads |= access.reads;
        info.writes |= access.writes;
        Ok(())
    }
}
