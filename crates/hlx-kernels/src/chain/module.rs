//! The shader of a chain: the frame of `elements.glsl` around the formulas of its stages.
//!
//! A thread has vectors of four elements. It loads its operands, applies each stage to each element,
//! and stores what is read by others. The formulas are functions of the single operations' modules;
//! around them stand loads and stores, integer arithmetic for places, and `hlx_decode` and
//! `hlx_encode` of `convert.glsl`. Every module passes the lint of the arithmetic before it is used.

mod frame;
mod stages;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hlx_core::{CoreError, DType, Shader};
use hlx_spirv::SpirvError;
use hlx_spirv::join::{Assembler, Id, Imported};
use hlx_spirv::spirv::{BuiltIn, Op};

use super::GROUP_THREADS;
use super::plan::{Input, Plan};
use super::{Cut, address, fault};
use super::{Formula, Source};
use crate::convert::{Form, convert_shader};
use crate::layout::{Access, in_quads};

type Written<T> = Result<T, SpirvError>;

/// The constant of `stored.glsl` that is the compute type of an operation.
const COMPUTE_ID: u32 = 992;

/// What makes two chains' shaders the same.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    stages: Vec<StageKey>,
    loads: Vec<(usize, Form, DType, Access)>,
    dimensions: usize,
    quads: bool,
    cut: Cut,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct StageKey {
    shader: usize,
    constants: Vec<(u32, u32)>,
    compute: DType,
    forms: Vec<Form>,
    out_form: Form,
    inputs: Vec<Input>,
    is_stored: bool,
}

impl Key {
    fn of(plan: &Plan<'_>) -> Self {
        let stage = |planned: &super::plan::PlannedStage<'_>| StageKey {
            shader: address(planned.launch.formula.shader),
            constants: planned.launch.formula.constants.clone(),
            compute: planned.launch.compute,
            forms: planned.launch.operands.iter().map(|o| o.form).collect(),
            out_form: planned.launch.out_form,
            inputs: planned.inputs.clone(),
            is_stored: planned.is_stored,
        };
        let loads = plan.loads.iter();
        Self {
            stages: plan.stages.iter().map(stage).collect(),
            loads: loads
                .map(|l| (l.binding, l.form, l.compute, l.access))
                .collect(),
            dimensions: plan.shape.len(),
            quads: in_quads(&plan.shape),
            cut: plan.cut,
        }
    }
}

/// The shaders made so far, for the life of the program.
static SHADERS: Mutex<Option<HashMap<Key, &'static Shader>>> = Mutex::new(None);

/// The modules of all chains joined so far, as little-endian bytes: for tests, which validate them.
pub fn modules() -> Vec<&'static [u8]> {
    let shaders = SHADERS.lock().unwrap_or_else(PoisonError::into_inner);
    let shaders = shaders.iter().flat_map(HashMap::values);
    shaders.map(|shader| shader.bytes()).collect()
}

/// The shader of a chain; chains of the same stages share it, whatever their extents are.
pub(super) fn shader(plan: &Plan<'_>) -> Result<&'static Shader, CoreError> {
    let mut shaders = SHADERS.lock().unwrap_or_else(PoisonError::into_inner);
    let shaders = shaders.get_or_insert_default();
    let key = Key::of(plan);
    if let Some(shader) = shaders.get(&key) {
        return Ok(shader);
    }
    let bytes = module(plan)?;
    // As long as the program: pipelines know a shader by its address.
    let bytes: &'static [u8] = Vec::leak(bytes);
    // SAFETY: the formulas are functions of valid modules, what is written around them is valid by
    // construction (the tests run spirv-val over it), and its accesses are bounded by the number of
    // elements and by the places that the launchers of its stages have checked.
    let shader = unsafe { Shader::new("chain", bytes) };
    let shader = &*Box::leak(Box::new(shader));
    shaders.insert(key, shader);
    Ok(shader)
}

/// The module of a chain, as little-endian bytes.
pub(super) fn module(plan: &Plan<'_>) -> Result<Vec<u8>, CoreError> {
    let words = Writer::new(plan).map(Writer::write);
    let words = words.map_err(|error| fault(&error.to_string()))?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    match &hlx_spirv::arithmetic::check("chain", &bytes)[..] {
        [] => Ok(bytes),
        breaches => Err(fault(&breaches.join("; "))),
    }
}

/// A module being written.
struct Writer<'a> {
    a: Assembler,
    plan: &'a Plan<'a>,
    /// The formula of each stage.
    formulas: Vec<Imported>,
    decode: Imported,
    encode: Imported,
    uint: Id,
    boolean: Id,
    count: Id,
    /// The extents, innermost first, without the outermost.
    extents: Vec<Id>,
    /// The first place and the strides of each load, as `Load::push` has them.
    places: Vec<Vec<Id>>,
    /// Buffers by binding and words per element.
    buffers: HashMap<(u32, u32), Id>,
    /// Variables for arguments, by type and place.
    arguments: HashMap<(Id, usize), Id>,
}

impl<'a> Writer<'a> {
    fn new(plan: &'a Plan<'a>) -> Written<Self> {
        let mut a = Assembler::new();
        let words = plan.push_words() as u32;
        a.push_constants(words);
        let conversions = conversions()?;
        let mut helper = |name: &str| {
            let function = conversions.library.function(name);
            let function = function.ok_or_else(|| SpirvError(format!("no function {name}")))?;
            a.import(&conversions.library, function, &[], None)
        };
        let (decode, encode) = (helper("hlx_decode")?, helper("hlx_encode")?);
        let (uint, boolean) = (a.uint(), a.boolean());
        let mut writer = Self {
            plan,
            formulas: Vec::with_capacity(plan.stages.len()),
            decode,
            encode,
            uint,
            boolean,
            count: a.load_push(0)?,
            extents: Vec::new(),
            places: Vec::new(),
            buffers: HashMap::new(),
            arguments: HashMap::new(),
            a,
        };
        writer.read_push()?;
        Ok(writer)
    }

    /// Loads the push constants, and takes the formulas with their parameters.
    fn read_push(&mut self) -> Written<()> {
        let plan = self.plan;
        let mut word = 1;
        for _ in 1..plan.shape.len() {
            self.extents.push(self.a.load_push(word)?);
            word += 1;
        }
        for load in &plan.loads {
            let mut places = Vec::new();
            for _ in load.push() {
                places.push(self.a.load_push(word)?);
                word += 1;
            }
            self.places.push(places);
        }
        for planned in &plan.stages {
            let formula = &planned.launch.formula;
            let source = formula
                .source()
                .ok_or_else(|| SpirvError(format!("{} has no formula", formula.shader.name())))?;
            let mut constants = formula.constants.clone();
            constants.push((COMPUTE_ID, planned.launch.compute.id()));
            let first = (source.parameters > 0).then_some(word);
            let taken = self
                .a
                .import(&source.library, source.apply, &constants, first)?;
            self.formulas.push(taken);
            word += source.parameters;
        }
        Ok(())
    }

    fn constant(&mut self, value: u32) -> Id {
        self.a.constant(value)
    }

    /// An operation over unsigned integers.
    fn op(&mut self, op: Op, a: Id, b: Id) -> Id {
        self.a.op(op, self.uint, &[a, b])
    }

    /// A comparison of unsigned integers.
    fn compare(&mut self, op: Op, a: Id, b: Id) -> Id {
        self.a.op(op, self.boolean, &[a, b])
    }

    fn select(&mut self, condition: Id, a: Id, b: Id) -> Id {
        self.a.op(Op::Select, self.uint, &[condition, a, b])
    }

    fn least(&mut self, a: Id, b: Id) -> Id {
        let less = self.compare(Op::ULessThan, a, b);
        self.select(less, a, b)
    }

    /// Calls a function of words, or of values that are other types of 32 bits.
    fn call(&mut self, function: &Imported, arguments: &[Id]) -> Id {
        let mut pointers = Vec::with_capacity(arguments.len());
        for (place, (&argument, &of)) in arguments.iter().zip(&function.parameters).enumerate() {
            let pointer = match self.arguments.get(&(of, place)) {
                Some(&pointer) => pointer,
                None => {
                    let pointer = self.a.local(of);
                    self.arguments.insert((of, place), pointer);
                    pointer
                }
            };
            let value = match of == self.uint {
                true => argument,
                false => self.a.op(Op::Bitcast, of, &[argument]),
            };
            self.a.effect(Op::Store, &[pointer, value]);
            pointers.push(pointer);
        }
        let result = self.a.call(function, &pointers);
        match function.result == self.uint {
            true => result,
            false => self.a.op(Op::Bitcast, self.uint, &[result]),
        }
    }

    /// A buffer as elements of this many words.
    fn buffer(&mut self, binding: u32, words: u32, writes: bool) -> (Id, Id) {
        let of = match words {
            1 => self.uint,
            _ => self.a.vector(self.uint, words),
        };
        let found = self.buffers.get(&(binding, words)).copied();
        let buffer = found.unwrap_or_else(|| {
            let buffer = self.a.buffer(binding, (of, 4 * words), writes);
            self.buffers.insert((binding, words), buffer);
            buffer
        });
        (of, buffer)
    }

    /// The workgroup's linear index, as `hlx_group()` has it.
    fn group(&mut self) -> Id {
        let mut axes = |which| {
            let uint = self.uint;
            let vector = self.a.vector(uint, 3);
            let variable = self.a.built_in(which);
            let loaded = self.a.op(Op::Load, vector, &[variable]);
            [0, 1, 2].map(|axis| self.a.component(uint, loaded, axis))
        };
        let [x, y, z] = axes(BuiltIn::WorkgroupId);
        let [width, height, _] = axes(BuiltIn::NumWorkgroups);
        let planes = self.op(Op::IMul, height, z);
        let rows = self.op(Op::IAdd, y, planes);
        let before = self.op(Op::IMul, width, rows);
        self.op(Op::IAdd, x, before)
    }

    fn thread(&mut self) -> Id {
        let vector = self.a.vector(self.uint, 3);
        let variable = self.a.built_in(BuiltIn::LocalInvocationId);
        let loaded = self.a.op(Op::Load, vector, &[variable]);
        self.a.component(self.uint, loaded, 0)
    }
}

/// The module that has the conversions of types.
fn conversions() -> Written<&'static Source> {
    let formula = Formula {
        shader: &convert_shader::SHADER,
        constants: Vec::new(),
    };
    let missing = || SpirvError("copy/convert has no formula".into());
    formula.source().ok_or_else(missing)
}
