//! Writes a compute shader, instruction by instruction.

use std::collections::HashMap;

use rspirv::binary::Assemble;
use rspirv::dr::{self, Operand};
use rspirv::spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel,
    FunctionControl, LoopControl, MemoryModel, Op, SelectionControl, StorageClass,
};

use super::Id;
use crate::SpirvError;

/// A function in its new module. Its parameters are pointers to variables of the function that
/// calls it, as in all GLSL.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The function.
    pub id: Id,
    /// The types that the parameters point to.
    pub parameters: Vec<Id>,
    /// The type of the result.
    pub result: Id,
}

/// What makes two copies of a library's functions the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CopyKey {
    pub library: u64,
    pub constants: Vec<(u32, u32)>,
    pub first_parameter: Option<u32>,
}

/// The new ids of a library's definitions.
pub(super) type Ids = HashMap<Id, Id>;

/// A module under construction, whose entry point `main` is being written. Types and constants are
/// made where they are first named.
pub struct Assembler {
    module: dr::Module,
    last_id: Id,
    /// Types and constants, without their ids.
    interned: HashMap<dr::Instruction, Id>,
    specialized: HashMap<u32, Id>,
    blocks_of: HashMap<Id, Id>,
    pub(super) copies: HashMap<CopyKey, Ids>,
    glsl: Option<Id>,
    /// The variable of the push constants.
    push: Option<Id>,
    /// Global variables.
    interface: Vec<Id>,
    locals: Vec<dr::Instruction>,
    /// Those of `main`, the last being written.
    blocks: Vec<dr::Block>,
}

/// A loop being written.
#[derive(Debug)]
pub struct Loop {
    /// The counter's value.
    pub index: Id,
    counter: Id,
    head: Id,
    next: Id,
    behind: Id,
}

impl Default for Assembler {
    fn default() -> Self {
        Self::new()
    }
}

impl Assembler {
    /// Begins a module with an empty `main`.
    pub fn new() -> Self {
        let mut assembler = Self {
            module: dr::Module::new(),
            last_id: 0,
            interned: HashMap::new(),
            specialized: HashMap::new(),
            blocks_of: HashMap::new(),
            copies: HashMap::new(),
            glsl: None,
            push: None,
            interface: Vec::new(),
            locals: Vec::new(),
            blocks: Vec::new(),
        };
        let label = assembler.new_id();
        assembler.begin(label);
        assembler
    }

    /// Returns an id that nothing has: of a block that is begun later.
    pub fn new_id(&mut self) -> Id {
        self.last_id += 1;
        self.last_id
    }

    // Types and constants.

    pub(super) fn intern(&mut self, instruction: dr::Instruction) -> Id {
        if let Some(&id) = self.interned.get(&instruction) {
            return id;
        }
        let id = self.new_id();
        let mut defined = instruction.clone();
        defined.result_id = Some(id);
        self.module.types_global_values.push(defined);
        self.interned.insert(instruction, id);
        id
    }

    /// A specialization constant, once for each of its numbers.
    pub(super) fn specialized(&mut self, number: u32, mut constant: dr::Instruction) -> Id {
        if let Some(&id) = self.specialized.get(&number) {
            return id;
        }
        let id = self.new_id();
        constant.result_id = Some(id);
        self.module.types_global_values.push(constant);
        self.specialized.insert(number, id);
        self.decorate(id, Decoration::SpecId, Some(number));
        id
    }

    fn of_type(&mut self, op: Op, operands: Vec<Operand>) -> Id {
        self.intern(dr::Instruction::new(op, None, None, operands))
    }

    /// The type of 32-bit unsigned integers.
    pub fn uint(&mut self) -> Id {
        let operands = vec![Operand::LiteralBit32(32), Operand::LiteralBit32(0)];
        self.of_type(Op::TypeInt, operands)
    }

    /// The type of truth values.
    pub fn boolean(&mut self) -> Id {
        self.of_type(Op::TypeBool, Vec::new())
    }

    /// The type of vectors.
    pub fn vector(&mut self, of: Id, len: u32) -> Id {
        let operands = vec![Operand::IdRef(of), Operand::LiteralBit32(len)];
        self.of_type(Op::TypeVector, operands)
    }

    fn pointer(&mut self, class: StorageClass, to: Id) -> Id {
        let operands = vec![Operand::StorageClass(class), Operand::IdRef(to)];
        self.of_type(Op::TypePointer, operands)
    }

    /// An unsigned integer.
    pub fn constant(&mut self, value: u32) -> Id {
        let of = Some(self.uint());
        let operands = vec![Operand::LiteralBit32(value)];
        self.intern(dr::Instruction::new(Op::Constant, of, None, operands))
    }

    pub(super) fn glsl(&mut self) -> Id {
        if let Some(id) = self.glsl {
            return id;
        }
        let id = self.new_id();
        let name = vec![Operand::from("GLSL.std.450")];
        let import = dr::Instruction::new(Op::ExtInstImport, None, Some(id), name);
        self.module.ext_inst_imports.push(import);
        self.glsl = Some(id);
        id
    }

    // Global variables.

    fn variable(&mut self, class: StorageClass, of: Id) -> Id {
        let of = self.pointer(class, of);
        let id = self.new_id();
        let operands = vec![Operand::StorageClass(class)];
        let variable = dr::Instruction::new(Op::Variable, Some(of), Some(id), operands);
        self.module.types_global_values.push(variable);
        self.interface.push(id);
        id
    }

    /// A storage buffer of elements of a type of this many bytes, read or written alone.
    pub fn buffer(&mut self, binding: u32, (of, bytes): (Id, u32), writes: bool) -> Id {
        let block = match self.blocks_of.get(&of) {
            Some(&block) => block,
            None => {
                let array = self.new_id();
                let element = vec![Operand::IdRef(of)];
                self.declare(Op::TypeRuntimeArray, array, element);
                self.decorate(array, Decoration::ArrayStride, Some(bytes));
                let block = self.block_of(array);
                self.blocks_of.insert(of, block);
                block
            }
        };
        let id = self.variable(StorageClass::StorageBuffer, block);
        self.decorate(id, Decoration::DescriptorSet, Some(0));
        self.decorate(id, Decoration::Binding, Some(binding));
        self.decorate(id, Decoration::Restrict, None);
        let access = match writes {
            true => Decoration::NonReadable,
            false => Decoration::NonWritable,
        };
        self.decorate(id, access, None);
        id
    }

    /// Declares this many words of push constants.
    pub fn push_constants(&mut self, words: u32) {
        let (of, len) = (self.uint(), self.constant(words));
        let array = self.new_id();
        let operands = vec![Operand::IdRef(of), Operand::IdRef(len)];
        self.declare(Op::TypeArray, array, operands);
        self.decorate(array, Decoration::ArrayStride, Some(4));
        let block = self.block_of(array);
        self.push = Some(self.variable(StorageClass::PushConstant, block));
    }

    /// The access chain of this id to a word of the push constants.
    pub(super) fn push_word(&mut self, word: u32, id: Id) -> Result<dr::Instruction, SpirvError> {
        let push = self.push;
        let push = push.ok_or_else(|| SpirvError("there are no push constants".into()))?;
        let (zero, word) = (self.constant(0), self.constant(word));
        let uint = self.uint();
        let of = self.pointer(StorageClass::PushConstant, uint);
        let operands = [push, zero, word].map(Operand::IdRef).to_vec();
        Ok(dr::Instruction::new(
            Op::AccessChain,
            Some(of),
            Some(id),
            operands,
        ))
    }

    /// A built-in vector of three unsigned integers.
    pub fn built_in(&mut self, which: BuiltIn) -> Id {
        let uint = self.uint();
        let of = self.vector(uint, 3);
        let id = self.variable(StorageClass::Input, of);
        let operands = [Operand::IdRef(id), Decoration::BuiltIn.into(), which.into()];
        self.annotate(dr::Instruction::new(
            Op::Decorate,
            None,
            None,
            operands.to_vec(),
        ));
        id
    }

    fn block_of(&mut self, member: Id) -> Id {
        let block = self.new_id();
        self.declare(Op::TypeStruct, block, vec![Operand::IdRef(member)]);
        self.decorate(block, Decoration::Block, None);
        let operands = [
            Operand::IdRef(block),
            Operand::LiteralBit32(0),
            Decoration::Offset.into(),
            Operand::LiteralBit32(0),
        ];
        self.annotate(dr::Instruction::new(
            Op::MemberDecorate,
            None,
            None,
            operands.to_vec(),
        ));
        block
    }

    fn declare(&mut self, op: Op, id: Id, operands: Vec<Operand>) {
        let declared = dr::Instruction::new(op, None, Some(id), operands);
        self.module.types_global_values.push(declared);
    }

    fn decorate(&mut self, id: Id, decoration: Decoration, value: Option<u32>) {
        let mut operands = vec![Operand::IdRef(id), decoration.into()];
        operands.extend(value.map(Operand::LiteralBit32));
        self.annotate(dr::Instruction::new(Op::Decorate, None, None, operands));
    }

    pub(super) fn annotate(&mut self, annotation: dr::Instruction) {
        self.module.annotations.push(annotation);
    }

    pub(super) fn name(&mut self, id: Id, name: &str) {
        let operands = vec![Operand::IdRef(id), Operand::from(name)];
        let name = dr::Instruction::new(Op::Name, None, None, operands);
        self.module.debug_names.push(name);
    }

    pub(super) fn add_function(&mut self, function: dr::Function) {
        self.module.functions.push(function);
    }

    // Instructions of `main`.

    fn add(&mut self, instruction: dr::Instruction) {
        if let Some(block) = self.blocks.last_mut() {
            block.instructions.push(instruction);
        }
    }

    /// Adds an instruction over ids with a result.
    pub fn op(&mut self, op: Op, of: Id, ids: &[Id]) -> Id {
        let id = self.new_id();
        let operands = ids.iter().copied().map(Operand::IdRef).collect();
        self.add(dr::Instruction::new(op, Some(of), Some(id), operands));
        id
    }

    /// Adds an instruction over ids without a result.
    pub fn effect(&mut self, op: Op, ids: &[Id]) {
        let operands = ids.iter().copied().map(Operand::IdRef).collect();
        self.add(dr::Instruction::new(op, None, None, operands));
    }

    /// A component of a vector.
    pub fn component(&mut self, of: Id, vector: Id, place: u32) -> Id {
        let id = self.new_id();
        let operands = vec![Operand::IdRef(vector), Operand::LiteralBit32(place)];
        self.add(dr::Instruction::new(
            Op::CompositeExtract,
            Some(of),
            Some(id),
            operands,
        ));
        id
    }

    /// A variable of `main`.
    pub fn local(&mut self, of: Id) -> Id {
        let of = self.pointer(StorageClass::Function, of);
        let id = self.new_id();
        let operands = vec![Operand::StorageClass(StorageClass::Function)];
        self.locals.push(dr::Instruction::new(
            Op::Variable,
            Some(of),
            Some(id),
            operands,
        ));
        id
    }

    /// A pointer to an element of a local vector.
    pub fn element(&mut self, of: Id, local: Id, place: Id) -> Id {
        let of = self.pointer(StorageClass::Function, of);
        self.op(Op::AccessChain, of, &[local, place])
    }

    /// A pointer to an element of a buffer of elements of a type.
    pub fn buffer_element(&mut self, of: Id, buffer: Id, place: Id) -> Id {
        let of = self.pointer(StorageClass::StorageBuffer, of);
        let zero = self.constant(0);
        self.op(Op::AccessChain, of, &[buffer, zero, place])
    }

    /// Loads a word of the push constants.
    ///
    /// # Errors
    /// If there are none.
    pub fn load_push(&mut self, word: u32) -> Result<Id, SpirvError> {
        let pointer = self.new_id();
        let chain = self.push_word(word, pointer)?;
        self.add(chain);
        let uint = self.uint();
        Ok(self.op(Op::Load, uint, &[pointer]))
    }

    /// Calls a function with pointers to variables.
    pub fn call(&mut self, function: &Imported, arguments: &[Id]) -> Id {
        let mut ids = vec![function.id];
        ids.extend(arguments);
        self.op(Op::FunctionCall, function.result, &ids)
    }

    /// Begins a block; the last one has ended with a branch.
    pub fn begin(&mut self, label: Id) {
        let mut block = dr::Block::new();
        block.label = Some(dr::Instruction::new(
            Op::Label,
            None,
            Some(label),
            Vec::new(),
        ));
        self.blocks.push(block);
    }

    /// Ends the block by a jump.
    pub fn branch(&mut self, to: Id) {
        self.effect(Op::Branch, &[to]);
    }

    /// Ends the block: goes to `then` under the condition, else to `behind`, where both meet.
    pub fn branch_if(&mut self, condition: Id, then: Id, behind: Id) {
        self.branch_either(condition, [then, behind], behind);
    }

    /// Ends the block: goes to the first label under the condition, else to the second; both continue
    /// to `behind`.
    pub fn branch_either(&mut self, condition: Id, [yes, no]: [Id; 2], behind: Id) {
        self.merge(Op::SelectionMerge, &[behind], SelectionControl::NONE.into());
        self.effect(Op::BranchConditional, &[condition, yes, no]);
    }

    /// Begins a loop over 0, 1, ... below `end`.
    pub fn begin_loop(&mut self, end: Id) -> Loop {
        let (uint, boolean) = (self.uint(), self.boolean());
        let [head, test, inside, next, behind] = [0; 5].map(|_| self.new_id());
        let (counter, zero) = (self.local(uint), self.constant(0));
        self.effect(Op::Store, &[counter, zero]);
        self.branch(head);
        self.begin(head);
        self.merge(Op::LoopMerge, &[behind, next], LoopControl::NONE.into());
        self.branch(test);
        self.begin(test);
        let index = self.op(Op::Load, uint, &[counter]);
        let goes_on = self.op(Op::ULessThan, boolean, &[index, end]);
        self.effect(Op::BranchConditional, &[goes_on, inside, behind]);
        self.begin(inside);
        Loop {
            index,
            counter,
            head,
            next,
            behind,
        }
    }

    /// Ends a loop.
    pub fn end_loop(&mut self, ended: Loop) {
        let (uint, one) = (self.uint(), self.constant(1));
        self.branch(ended.next);
        self.begin(ended.next);
        let following = self.op(Op::IAdd, uint, &[ended.index, one]);
        self.effect(Op::Store, &[ended.counter, following]);
        self.branch(ended.head);
        self.begin(ended.behind);
    }

    fn merge(&mut self, op: Op, labels: &[Id], control: Operand) {
        let mut operands: Vec<Operand> = labels.iter().copied().map(Operand::IdRef).collect();
        operands.push(control);
        self.add(dr::Instruction::new(op, None, None, operands));
    }

    /// Ends `main`; returns the module of workgroups of this many threads, as SPIR-V 1.5.
    pub fn finish(mut self, threads: u32) -> Vec<u32> {
        self.effect(Op::Return, &[]);
        let void = self.of_type(Op::TypeVoid, Vec::new());
        let signature = self.of_type(Op::TypeFunction, vec![Operand::IdRef(void)]);
        let main = self.new_id();
        let operands = vec![FunctionControl::NONE.into(), Operand::IdRef(signature)];
        let mut blocks = std::mem::take(&mut self.blocks);
        if let Some(first) = blocks.first_mut() {
            first
                .instructions
                .splice(0..0, std::mem::take(&mut self.locals));
        }
        self.module.functions.push(dr::Function {
            def: Some(dr::Instruction::new(
                Op::Function,
                Some(void),
                Some(main),
                operands,
            )),
            end: Some(dr::Instruction::new(
                Op::FunctionEnd,
                None,
                None,
                Vec::new(),
            )),
            parameters: Vec::new(),
            blocks,
        });
        self.name(main, "main");
        self.declare_entry(main, threads);
        let mut header = dr::ModuleHeader::new(self.last_id + 1);
        header.set_version(1, 5);
        self.module.header = Some(header);
        self.module.assemble()
    }

    fn declare_entry(&mut self, main: Id, threads: u32) {
        let plain = |op, operands| dr::Instruction::new(op, None, None, operands);
        let shader = vec![Capability::Shader.into()];
        self.module.capabilities.push(plain(Op::Capability, shader));
        let model = vec![AddressingModel::Logical.into(), MemoryModel::GLSL450.into()];
        self.module.memory_model = Some(plain(Op::MemoryModel, model));
        let mut entry = vec![
            ExecutionModel::GLCompute.into(),
            Operand::IdRef(main),
            Operand::from("main"),
        ];
        entry.extend(self.interface.iter().copied().map(Operand::IdRef));
        self.module.entry_points.push(plain(Op::EntryPoint, entry));
        let mut size = vec![Operand::IdRef(main), ExecutionMode::LocalSize.into()];
        size.extend([threads, 1, 1].map(Operand::LiteralBit32));
        self.module
            .execution_modes
            .push(plain(Op::ExecutionMode, size));
    }
}
