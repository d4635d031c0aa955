//! Shaders from outside as kernels of a device: the layer below contracts, with their checks, over buffers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use hlx_core::{Binding, Buffer, ComputePipeline, DType, Device};
use hlx_store::Dtype;

use super::check::{check, check_limits};
use super::execute::compiled;
use super::loaded::{Loaded, validate};
use super::scalar::Number;
use super::spirv::{BindingInfo, Reflection};
use super::twins::no_twin;
use super::{
    ContractError, Encoded, Input, Kernel, Output, Scalar, Shader, SpecializationConstant,
};

/// Names that timing reports tell apart; a process that gives more shares the last one.
const MAX_NAMES: usize = 4096;
const OTHER_NAME: &str = "shader";

/// A validated shader with its pipeline on one device, which is launched over buffers.
///
/// A launch is checked as a contract is: the number of buffers, their dtypes and sizes, push constants, workgroups. It
/// runs after all work launched so far, is timed with it, and is recorded while a graph is
/// ([`Device::record`](hlx_core::Device::record)).
///
/// The shader reaches nothing but its buffers: one that is not an allocation of its own
/// ([`Device::alloc_isolated`](hlx_core::Device::alloc_isolated)) is copied to one for the launch, and copied back if the
/// shader stores to it.
pub struct Program {
    device: Device,
    /// The launch as a contract, without its inputs, outputs and push constants.
    kernel: Kernel,
    shader: Arc<Loaded>,
    compiled: ComputePipeline,
}

impl Program {
    /// Makes a pipeline of a shader, with values of its specialization constants. `name` is in errors and timing reports.
    ///
    /// # Errors
    /// [`ContractError::Device`] on the CPU device, and if this one's limits or driver refuse the shader;
    /// [`ContractError::Spirv`]; [`ContractError::Invalid`] for constants that the shader does not have.
    pub fn new(
        device: &Device,
        name: &str,
        shader: &Shader,
        specialization: &[SpecializationConstant],
    ) -> Result<Self, ContractError> {
        super::kernel::check_name("a kernel", name)?;
        let handle = shader.handle()?;
        let shader = Arc::new(validate(handle, shader)?);
        let mut kernel = Kernel {
            contract: Number,
            name: name.to_owned(),
            shader: handle,
            workgroup_size: [1; 3],
            workgroups: [1; 3],
            specialization: specialization.to_vec(),
            push_constants: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        kernel.specialization.sort_by_key(|constant| constant.id);
        if device.is_cpu() {
            let why = format!("shader {handle} is SPIR-V");
            return Err(no_twin(device, &kernel, &why));
        }
        super::check::check_constants(&kernel, &shader)?;
        let size = shader.reflection.workgroup_size(&kernel.constants());
        kernel.workgroup_size = size.map_err(|reason| ContractError::invalid(name, reason))?;
        check_limits(device, &kernel, &shader)?;
        let compiled = compiled(device, static_name(name), &kernel, &shader)?;
        Ok(Self {
            device: device.clone(),
            kernel,
            shader,
            compiled,
        })
    }

    /// The shader's interface: its bindings, constants and push constants.
    pub fn interface(&self) -> &Reflection {
        &self.shader.reflection
    }

    /// Invocations of a workgroup in x, y and z, under the constants.
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.kernel.workgroup_size
    }

    /// Launches the shader over buffers in the order of its bindings.
    ///
    /// # Errors
    /// [`ContractError::Binding`] and [`ContractError::Invalid`] for buffers, push constants or workgroups that do not fit
    /// the shader, [`ContractError::Device`] for those that do not fit the device; [`ContractError::Core`].
    pub fn launch(
        &self,
        buffers: &[Buffer],
        push: &[Scalar],
        workgroups: [u32; 3],
    ) -> Result<(), ContractError> {
        let kernel = self.as_contract(buffers, push, workgroups)?;
        check(&kernel, &self.shader)?;
        check_limits(&self.device, &kernel, &self.shader)?;
        self.check_apart(buffers)?;
        let failed = || ContractError::core(&kernel.name);
        let own = buffers.iter().map(|buffer| self.isolated(buffer));
        let own: Vec<Buffer> = own.collect::<Result<_, _>>()?;
        let bindings: Vec<Binding<'_>> = self
            .declared()
            .zip(&own)
            .map(|(info, buffer)| match info.writes {
                // Read and written, as the shader need not store to every word.
                true => Binding::ReadWrite(buffer),
                false => Binding::Read(buffer),
            })
            .collect();
        self.device
            .launch_pipeline(&self.compiled, &bindings, &kernel.push_bytes(), workgroups)
            .map_err(failed())?;
        for ((info, buffer), own) in self.declared().zip(buffers).zip(&own) {
            if !info.writes {
                continue;
            }
            if !buffer.is_isolated() {
                self.device.copy(own, buffer).map_err(failed())?;
            }
            self.device.note_change(buffer, 0..buffer.len(), false);
        }
        Ok(())
    }

    /// The shader's bindings, in order.
    fn declared(&self) -> impl Iterator<Item = &BindingInfo> {
        self.shader.reflection.bindings.values()
    }

    /// The launch as contract 901: what the shader stores to is its outputs.
    fn as_contract(
        &self,
        buffers: &[Buffer],
        push: &[Scalar],
        workgroups: [u32; 3],
    ) -> Result<Kernel, ContractError> {
        let name = &self.kernel.name;
        let wrong = |reason: String| Err(ContractError::invalid(name, reason));
        let expected = self.declared().count();
        if buffers.len() != expected {
            let found = buffers.len();
            let names: Vec<&str> = self.declared().map(|info| info.name.as_str()).collect();
            let names = names.join(", ");
            return wrong(format!(
                "{found} tensors, the shader binds {expected} ({names})"
            ));
        }
        if workgroups.contains(&0) {
            return wrong(format!("{workgroups:?} workgroups: nothing would run"));
        }
        let mut kernel = Kernel {
            workgroups,
            push_constants: push.to_vec(),
            ..self.kernel.clone()
        };
        for (info, buffer) in self.declared().zip(buffers) {
            let (name, binding) = (info.name.clone(), info.binding);
            let dtype = self.dtype_of(info, buffer)?;
            let shape = vec![buffer.len() as u64];
            if info.writes {
                kernel.outputs.push(Output {
                    name,
                    binding,
                    dtype,
                    shape,
                });
            } else {
                kernel.inputs.push(Input {
                    name,
                    binding,
                    dtype,
                    shape,
                    tensor: None,
                });
            }
        }
        Ok(kernel)
    }

    fn dtype_of(&self, info: &BindingInfo, buffer: &Buffer) -> Result<Dtype, ContractError> {
        match buffer.dtype() {
            _ if buffer.is_empty() => Err(self.binding_error(info, "a tensor without elements")),
            DType::F32 => Ok(Dtype::F32),
            DType::U32 => Ok(Dtype::U32),
            DType::I32 => Ok(Dtype::I32),
            other => {
                let reason = format!("dtype {other}, expected f32, u32 or i32");
                Err(self.binding_error(info, reason))
            }
        }
    }

    fn binding_error(&self, info: &BindingInfo, reason: impl Into<String>) -> ContractError {
        ContractError::Binding {
            contract: self.kernel.name.clone(),
            binding: info.binding,
            name: info.name.clone(),
            reason: reason.into(),
        }
    }

    /// Checks that what the shader stores to shares no memory with another buffer. Of buffers that are copied the
    /// device would not notice it.
    fn check_apart(&self, buffers: &[Buffer]) -> Result<(), ContractError> {
        for (place, info) in self.declared().enumerate().filter(|(_, info)| info.writes) {
            let shares =
                |other: &usize| *other != place && buffers[*other].overlaps(&buffers[place]);
            if let Some(other) = (0..buffers.len()).find(shares) {
                let reason =
                    format!("it shares memory with binding {other}, and the shader stores to it");
                return Err(self.binding_error(info, reason));
            }
        }
        Ok(())
    }

    /// The buffer if it is an allocation of its own, else a copy that is.
    pub(crate) fn isolated(&self, buffer: &Buffer) -> Result<Buffer, ContractError> {
        if buffer.is_isolated() {
            return Ok(buffer.clone());
        }
        let failed = || ContractError::core(&self.kernel.name);
        let own = self
            .device
            .alloc_isolated(buffer.words())
            .map_err(failed())?;
        self.device.copy(buffer, &own).map_err(failed())?;
        Ok(own)
    }
}

/// A name as timing reports hold it, for as long as the process lives.
fn static_name(name: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known;
    }
    if names.len() >= MAX_NAMES {
        return OTHER_NAME;
    }
    let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(leaked);
    leaked
}
