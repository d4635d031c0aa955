//! The declaration of a launch: a kernel's name and shader, and its buffers in binding order, each with its
//! use and its length.
//!
//! ```text
//! Kernel::new("rope", &shader::SHADER)
//!     .read("x", x, [rows, heads, width])?
//!     .read("positions", positions, rows)?
//!     .write("y", y, [rows, heads, width])?
//!     .launch(device, push!(shader => rows, heads, width), groups, move |[x, positions], [y]| ..)
//! ```
//!
//! The lengths are checked as they are declared. On the CPU device the last argument computes what the
//! shader does, over the words of the buffers that are only read and of those that are written, in the order
//! of the declaration.

use std::sync::Arc;

use hlx_core::fusion::Fusable;
use hlx_core::{Binding, Buffer, CpuBindings, Device, Launch, Shader, Work, groups_1d};

use crate::error::{Expected, Result, check_len, check_that};

mod push;

pub(crate) use push::{Field, PushConstants};

/// The most buffers of a kernel.
const MOST: usize = 16;
/// The most specialization constants.
const MOST_CONSTANTS: usize = 24;

/// A place for a buffer.
#[derive(Clone, Copy)]
enum Slot<'a> {
    Bound(Binding<'a>),
    /// A buffer that is only read, and not given.
    NoneRead,
    /// One that is written, and not given.
    NoneWritten,
}

impl<'a> Slot<'a> {
    fn buffer(&self) -> Option<&'a Buffer> {
        match self {
            Self::Bound(binding) => Some(binding.buffer()),
            Self::NoneRead | Self::NoneWritten => None,
        }
    }

    /// The buffer, if it is only read.
    fn read(&self) -> Option<&'a Buffer> {
        match self {
            Self::Bound(Binding::Read(buffer)) => Some(buffer),
            _ => None,
        }
    }
}

/// A kernel and its buffers. One declaration may be launched several times, over other ranges.
#[derive(Clone, Copy)]
pub(crate) struct Kernel<'a> {
    name: &'static str,
    shader: &'static Shader,
    constants: [(u32, u32); MOST_CONSTANTS],
    n_constants: usize,
    /// The buffers in binding order.
    slots: [Slot<'a>; MOST],
    count: usize,
    flops: u64,
    bytes: Option<u64>,
}

impl<'a> Kernel<'a> {
    /// A kernel without buffers; `name` is that of errors and timing reports.
    pub fn new(name: &'static str, shader: &'static Shader) -> Self {
        Self {
            name,
            shader,
            constants: [(0, 0); MOST_CONSTANTS],
            n_constants: 0,
            slots: [Slot::NoneRead; MOST],
            count: 0,
            flops: 0,
            bytes: None,
        }
    }

    /// Adds a buffer that is only read.
    ///
    /// # Errors
    /// A shape error if its length is another; so for all buffers.
    pub fn read(
        self,
        argument: &'static str,
        buffer: &'a Buffer,
        len: impl Expected,
    ) -> Result<Self> {
        self.checked(argument, Binding::Read(buffer), len)
    }

    /// Adds a buffer that is read if it is given. Without it, which constants tell the shader, another one
    /// is bound in its place, also for the CPU's body.
    pub fn read_if(
        self,
        argument: &'static str,
        buffer: Option<&'a Buffer>,
        len: impl Expected,
    ) -> Result<Self> {
        match buffer {
            Some(buffer) => self.read(argument, buffer, len),
            None => Ok(self.slot(Slot::NoneRead)),
        }
    }

    /// Adds a buffer of which every word is written.
    pub fn write(
        self,
        argument: &'static str,
        buffer: &'a Buffer,
        len: impl Expected,
    ) -> Result<Self> {
        self.checked(argument, Binding::Write(buffer), len)
    }

    /// Adds a buffer that is read and written.
    pub fn update(
        self,
        argument: &'static str,
        buffer: &'a Buffer,
        len: impl Expected,
    ) -> Result<Self> {
        self.checked(argument, Binding::ReadWrite(buffer), len)
    }

    /// Adds a result that is written, or with `accumulate` continued from what it holds.
    pub fn accumulate(
        self,
        argument: &'static str,
        buffer: &'a Buffer,
        len: impl Expected,
        accumulate: bool,
    ) -> Result<Self> {
        let binding = match accumulate {
            true => Binding::ReadWrite(buffer),
            false => Binding::Write(buffer),
        };
        self.checked(argument, binding, len)
    }

    /// Adds a buffer with its use, after a check of its length.
    pub fn checked(
        self,
        argument: &'static str,
        binding: Binding<'a>,
        len: impl Expected,
    ) -> Result<Self> {
        check_len(self.name, argument, binding.buffer(), len)?;
        Ok(self.bind(binding))
    }

    /// Adds a buffer whose length the launcher has checked or made.
    pub fn bind(self, binding: Binding<'a>) -> Self {
        self.slot(Slot::Bound(binding))
    }

    /// Adds buffers likewise.
    pub fn bind_all(self, bindings: impl IntoIterator<Item = Binding<'a>>) -> Self {
        bindings.into_iter().fold(self, Self::bind)
    }

    /// Adds buffers that are only read, likewise.
    pub fn reads<const N: usize>(self, buffers: [&'a Buffer; N]) -> Self {
        self.bind_all(buffers.map(Binding::Read))
    }

    /// Adds buffers of which every word is written, likewise.
    pub fn writes<const N: usize>(self, buffers: [&'a Buffer; N]) -> Self {
        self.bind_all(buffers.map(Binding::Write))
    }

    /// Adds buffers that are read and written, likewise.
    pub fn updates<const N: usize>(self, buffers: [&'a Buffer; N]) -> Self {
        self.bind_all(buffers.map(Binding::ReadWrite))
    }

    /// As [`Kernel::read_if`], after a check.
    pub fn reads_if(self, buffer: Option<&'a Buffer>) -> Self {
        self.slot(buffer.map_or(Slot::NoneRead, |buffer| Slot::Bound(Binding::Read(buffer))))
    }

    /// Adds a buffer that is written if it is given, after a check; otherwise a word is bound in its place.
    pub fn writes_if(self, binding: Option<Binding<'a>>) -> Self {
        self.slot(binding.map_or(Slot::NoneWritten, Slot::Bound))
    }

    fn slot(mut self, slot: Slot<'a>) -> Self {
        debug_assert!(self.count < MOST, "{}: more than {MOST} buffers", self.name);
        self.slots[self.count] = slot;
        self.count += 1;
        self
    }

    /// Adds specialization constants: ids and words.
    pub fn constants(mut self, constants: impl AsRef<[(u32, u32)]>) -> Self {
        let (constants, first) = (constants.as_ref(), self.n_constants);
        self.n_constants += constants.len();
        self.constants[first..self.n_constants].copy_from_slice(constants);
        self
    }

    /// Sets the operations that timing reports count.
    pub fn flops(self, flops: u64) -> Self {
        Self { flops, ..self }
    }

    /// Sets the bytes that timing reports count, where they are not those of the buffers.
    pub fn bytes(self, bytes: usize) -> Self {
        let bytes = Some(bytes as u64);
        Self { bytes, ..self }
    }

    /// Launches the kernel; `cpu` gets the words of the buffers that are only read, then of the others.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for a push constant that 32 bits don't hold, on
    /// a GPU; the device's error.
    pub fn launch<const R: usize, const W: usize>(
        &self,
        device: &Device,
        push: impl Into<PushConstants>,
        groups: impl Groups,
        cpu: impl Fn([&[f32]; R], [&mut [f32]; W]) + Send + Sync + 'static,
    ) -> Result<()> {
        self.launch_bound(device, push, groups, move |bindings| {
            let (read, written) = bindings.split::<R, W>();
            cpu(read, written);
        })
    }

    /// As [`Kernel::launch`], with a body that takes the bindings apart itself: of several types, or of a
    /// number that is not known here.
    pub fn launch_bound(
        &self,
        device: &Device,
        push: impl Into<PushConstants>,
        groups: impl Groups,
        cpu: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<()> {
        let mut cpu = Some(cpu);
        let (push, groups) = (push.into(), groups.groups());
        self.with_launch(
            device,
            &push,
            groups,
            &mut |launch, work| match cpu.take() {
                Some(cpu) => Ok(device.launch_counted(launch, work, cpu)?),
                None => Ok(()),
            },
        )
    }

    /// As [`Kernel::launch_bound`], of a launch that may become part of a chain ([`Device::launch_fusable`]).
    pub fn launch_fusable(
        &self,
        device: &Device,
        push: impl Into<PushConstants>,
        groups: impl Groups,
        fusable: impl FnOnce() -> Option<Arc<dyn Fusable>>,
        cpu: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<()> {
        let mut step = Some((fusable, cpu));
        let (push, groups) = (push.into(), groups.groups());
        self.with_launch(device, &push, groups, &mut |launch, _| match step.take() {
            Some((fusable, cpu)) => Ok(device.launch_fusable(launch, fusable, cpu)?),
            None => Ok(()),
        })
    }

    /// Launches one of several kernels that together do what the CPU device does in one launch; the CPU
    /// device refuses it.
    pub fn launch_on_gpu(
        &self,
        device: &Device,
        push: impl Into<PushConstants>,
        groups: impl Groups,
    ) -> Result<()> {
        check_that!(self.name, !device.is_cpu() => "a kernel of GPUs alone on the CPU device")?;
        self.launch_bound(device, push, groups, |_| {})
    }

    /// Calls `launch`, once, with the buffers bound.
    fn with_launch(
        &self,
        device: &Device,
        push: &PushConstants,
        groups: [u32; 3],
        launch: &mut dyn FnMut(Launch<'_>, Work) -> Result<()>,
    ) -> Result<()> {
        if let Some(field) = push.misfit().filter(|_| !device.is_cpu()) {
            let reason = format!("{field} is more than a kernel can index");
            return check_that(self.name, false, || reason);
        }
        let slots = &self.slots[..self.count];
        let read = slots.iter().find_map(Slot::read);
        let is_alone = |slot: &&Slot<'_>| match slot {
            Slot::Bound(_) => false,
            Slot::NoneRead => read.is_none(),
            Slot::NoneWritten => true,
        };
        let spares = slots.iter().filter(is_alone).map(|_| device.alloc(1));
        let spares = spares.collect::<Result<Vec<_>, _>>()?;
        let mut spare = spares.iter();
        let Some(any) = slots.iter().find_map(Slot::buffer).or(spares.first()) else {
            return check_that!(self.name, false => "no buffers");
        };
        let mut bindings = [Binding::Read(any); MOST];
        for (binding, slot) in bindings.iter_mut().zip(slots) {
            *binding = match (slot, read) {
                (Slot::Bound(bound), _) => *bound,
                (Slot::NoneRead, Some(buffer)) => Binding::Read(buffer),
                (Slot::NoneRead, None) => Binding::Read(spare.next().unwrap_or(any)),
                (Slot::NoneWritten, _) => Binding::Write(spare.next().unwrap_or(any)),
            };
        }
        let bindings = &bindings[..self.count];
        let work = Work::of(bindings);
        let work = Work {
            bytes: self.bytes.unwrap_or(work.bytes),
            flops: self.flops,
        };
        let launched = Launch {
            name: self.name,
            shader: self.shader,
            specialization: &self.constants[..self.n_constants],
            bindings,
            push: push.bytes(),
            groups,
        };
        launch(launched, work)
    }
}

/// Words as specialization constants with the numbers from `first` on; [`constants!`](crate::constants) converts them.
pub(crate) fn numbered<const N: usize>(first: u32, words: [u32; N]) -> [(u32, u32); N] {
    std::array::from_fn(|i| (first + i as u32, words[i]))
}

/// Workgroups of a launch.
pub(crate) trait Groups {
    /// In x, y and z.
    fn groups(self) -> [u32; 3];
}

impl Groups for usize {
    /// A number of workgroups, whose index a shader gets from `hlx_group()`.
    fn groups(self) -> [u32; 3] {
        groups_1d(self)
    }
}

impl Groups for [u32; 3] {
    fn groups(self) -> [u32; 3] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run_everywhere;

    shader!(shader, mse::forward);

    #[test]
    fn lengths_are_checked_as_they_are_declared() {
        for device in hlx_core::testing::devices() {
            let x = device.alloc(6).expect("memory");
            let kernel = Kernel::new("op", &shader::SHADER);
            let error = kernel
                .read("x", &x, [2, 4])
                .map(drop)
                .expect_err("8 elements");
            assert_eq!(error.to_string(), "op: x has 6 elements, expected 8");
            let error = kernel.read("x", &x, [usize::MAX, 2]).map(drop);
            assert!(
                error.is_err_and(|error| error.to_string().contains("more elements than memory"))
            );
        }
    }

    #[test]
    fn only_a_gpu_refuses_what_32_bits_do_not_hold() {
        let many = usize::MAX;
        for device in hlx_core::testing::devices() {
            let x = device.alloc(1).expect("memory");
            let push = push!(shader => count: many, scalar: 0.0);
            let kernel = Kernel::new("op", &shader::SHADER).reads([&x, &x]);
            let launched = kernel.launch_bound(device, push, [0; 3], |_| {});
            let refused = launched.is_err_and(|error| {
                error.to_string() == "op: count is more than a kernel can index"
            });
            assert_eq!(refused, !device.is_cpu());
        }
    }

    #[test]
    fn what_lacks_has_a_stand_in() {
        let errors = run_everywhere("mse_forward", |device, mem| {
            let x = mem.input(device, &[1.0, 3.0])?;
            let y = mem.output(device, 2)?;
            let push = push!(shader => count: 2_u32, scalar: 0.0);
            // The shader's second operand is the first one.
            Kernel::new("op", &shader::SHADER)
                .reads_if(None)
                .read("x", &x, 2)?
                .write("y", &y, 2)?
                .launch(device, push, 1, |[a, b], [y]| {
                    for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
                        *y = (a - b) * (a - b);
                    }
                })?;
            Ok(vec![y])
        });
        assert_eq!(errors[0], [0.0, 0.0]);
    }
}
