//! Chains of element-wise launches joined into one when a graph is recorded.
//!
//! The launchers over `elements.glsl` and `map.glsl` describe each launch as a [`StageLaunch`]: its formula,
//! its operands' places and types, its result's type. `plan.rs` makes of a chain of stages one walk
//! over their elements; `module.rs` writes the shader, of the formulas' functions in the modules of
//! the single operations, and `cpu.rs` runs the stages piece by piece. A result that goes from one stage
//! to the next is rounded to the type that it would be stored in, and every stage computes what it
//! computes by itself, so a chain has the bits of its launches.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hlx_core::CpuBody;
use hlx_core::fusion::{Fusable, Joined, Limits, Stage};
use hlx_core::{CoreError, DType, Device, Shader, groups_1d};
use hlx_spirv::join::{Id, Library};

use crate::convert::Form;
use crate::layout::is_row_major;
use crate::tuning::KernelTuning;
use plan::Plan;

pub use module::modules;

mod cpu;
mod module;
mod plan;

/// Threads of a workgroup of the modules that are written here, as of `map.glsl`.
const GROUP_THREADS: usize = 256;

/// Computes words of the compute type from as many of each operand.
pub(crate) type Chunk = Arc<dyn Fn(&[&[u32]], &mut [u32]) + Send + Sync>;

/// A launch that may become part of a chain.
pub(crate) struct StageLaunch {
    pub formula: Formula,
    pub compute: DType,
    /// The extents of the walk over the elements, outermost first.
    pub shape: Vec<usize>,
    pub operands: Vec<StageOperand>,
    /// How results are stored.
    pub out_form: Form,
    /// The parameters of the formula.
    pub parameters: Vec<u32>,
    /// The formula on the CPU.
    pub chunk: Chunk,
    pub cut: Cut,
}

/// Where an operand's elements lie in its window, and how they are loaded.
#[derive(Clone, Debug)]
pub(crate) struct StageOperand {
    pub form: Form,
    pub strides: Vec<isize>,
    pub offset: usize,
}

/// How the elements are cut into threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cut {
    /// Vectors of four of a thread.
    pub vectors: u32,
    /// Whether there are only whole vectors.
    whole: bool,
    /// Whether the device fuses and flushes by itself; otherwise software drivers compile one copy
    /// of the formulas sooner than four.
    native: bool,
}

impl Cut {
    /// The cut of a launch over `len` elements.
    pub fn of(device: &Device, len: usize) -> Self {
        let tuning = &KernelTuning::of(device).maps;
        Self {
            vectors: tuning.vectors_a_thread(len) as u32,
            whole: len.is_multiple_of(4) && tuning.whole_vectors,
            native: device.native_arithmetic(),
        }
    }

    /// The constants of `map.glsl` and `elements.glsl`: the vectors of a thread, and whether all are whole.
    pub fn constants(self) -> impl Iterator<Item = (u32, u32)> {
        let vectors = (self.vectors > 1).then_some((999, self.vectors));
        vectors.into_iter().chain(self.whole.then_some((998, 1)))
    }

    /// The workgroups of a launch over `len` elements.
    pub fn groups(self, len: usize) -> usize {
        len.div_ceil(4 * self.vectors as usize * GROUP_THREADS)
    }
}

impl StageOperand {
    /// Whether the elements of the whole walk lie one behind the other, from the first on.
    fn is_dense(&self, shape: &[usize]) -> bool {
        is_row_major(shape, &self.strides) && self.offset == 0
    }
}

impl StageLaunch {
    /// A stage of contiguous f32 operands, over `map.glsl`.
    pub fn dense_f32(
        device: &Device,
        formula: Formula,
        len: usize,
        parameters: &[u32],
        operands: usize,
        chunk: Chunk,
    ) -> Self {
        let operand = StageOperand {
            form: Form::Of(DType::F32),
            strides: vec![1],
            offset: 0,
        };
        Self {
            formula,
            compute: DType::F32,
            shape: vec![len],
            operands: vec![operand; operands],
            out_form: Form::Of(DType::F32),
            parameters: parameters.to_vec(),
            chunk,
            cut: Cut::of(device, len),
        }
    }

    /// Itself as what a recording keeps; `None` if the formula cannot leave its shader.
    pub fn fusable(self, device: &Device) -> Option<Arc<dyn Fusable>> {
        let joins = device.is_cpu() || self.formula.source().is_some();
        joins.then(|| Arc::new(self) as Arc<dyn Fusable>)
    }
}

impl Fusable for StageLaunch {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    fn is_each(&self, operand: usize) -> bool {
        let operand = self.operands.get(operand);
        operand.is_some_and(|operand| operand.is_dense(&self.shape))
    }

    fn joins(&self, chain: &[Stage], limits: Limits) -> bool {
        // The CPU device has no limit, and reads no shader.
        let fits = |plan: &Plan<'_>| plan.push_words().saturating_mul(4) <= limits.push_bytes;
        Plan::of(chain).is_some_and(|plan| limits.push_bytes == usize::MAX || fits(&plan))
    }

    fn join(&self, chain: &[Stage]) -> Result<Joined, CoreError> {
        let plan = Plan::of(chain).ok_or_else(|| fault("a chain without a walk over all of it"))?;
        Ok(Joined {
            shader: module::shader(&plan)?,
            specialization: Vec::new(),
            push: bytemuck::cast_slice(&plan.push()).to_vec(),
            groups: groups_1d(self.cut.groups(self.elements())),
        })
    }

    fn join_on_cpu(&self, chain: &[Stage]) -> CpuBody {
        match Plan::of(chain) {
            Some(plan) => cpu::body(&plan),
            // `joins` has seen the plan.
            None => Box::new(|_| {}),
        }
    }
}

fn fault(reason: &str) -> CoreError {
    CoreError::invalid("chain", reason)
}

/// A shader's address, which is one for each.
fn address(shader: &'static Shader) -> usize {
    std::ptr::from_ref(shader).addr()
}

/// What an operation computes of one element: the function `apply` of its shader.
#[derive(Clone)]
pub(crate) struct Formula {
    pub shader: &'static Shader,
    /// The values of the constants that the function depends on.
    pub constants: Vec<(u32, u32)>,
}

/// The function in its module.
pub(super) struct Source {
    pub library: Library,
    pub apply: Id,
    /// The words of parameters that it reads.
    pub parameters: u32,
}

impl Formula {
    /// Reads the shader the first time; `None` if the function cannot be taken out of it.
    pub(super) fn source(&self) -> Option<&'static Source> {
        static SOURCES: Mutex<Option<HashMap<usize, Option<&'static Source>>>> = Mutex::new(None);
        let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = sources.get_or_insert_default();
        let read = || {
            let library = Library::read(&self.shader.words()).ok()?;
            let apply = library.function("apply")?;
            let parameters = library.parameters(apply).ok()?;
            // As long as the program, like the shader that it is read from.
            Some(&*Box::leak(Box::new(Source {
                library,
                apply,
                parameters,
            })))
        };
        *sources.entry(address(self.shader)).or_insert_with(read)
    }

    /// The words of parameters that the function reads.
    pub fn parameters(&self) -> u32 {
        self.source().map_or(0, |source| source.parameters)
    }
}
