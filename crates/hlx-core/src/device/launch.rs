//! Launches of kernels on a device.

use std::sync::Arc;

use crate::error::CoreError;
use crate::fusion::Fusable;
use crate::launch::{CpuBindings, CpuBody, Launch, check_bindings};
use crate::stream::Stream;
use crate::timing::Work;

use super::Device;

impl Device {
    /// Launches a kernel: the shader on a Vulkan device, `cpu` on the CPU device. While a graph
    /// is being recorded, the launch is recorded instead of run. Any thread may launch; `cpu` itself
    /// must not launch on this device.
    ///
    /// # Errors
    /// [`CoreError::OtherDevice`] for a buffer of another device; [`CoreError::Invalid`] for
    /// bindings that overlap, are misaligned or larger than the device binds, and while another
    /// thread records a graph; the driver's error.
    pub fn launch<F>(&self, launch: Launch<'_>, cpu: F) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        self.launch_counted(launch, launch.work(), cpu)
    }

    /// As [`Device::launch`], with what timing reports are to count for it: the operations, and the
    /// bytes where they are not those of the bound windows.
    /// `device.launch_counted(launch, Work { flops, ..launch.work() }, ..)`.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub fn launch_counted<F>(&self, launch: Launch<'_>, work: Work, cpu: F) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        let mut cpu = Some(cpu);
        self.launch_any(&launch, work, None, &mut || boxed(&mut cpu))
    }

    /// As [`Device::launch`], for a launch that becomes part of a chain where a graph is recorded
    /// and [`Tuning::chains`](crate::Tuning::chains) is on. `fusable` is called only then.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub fn launch_fusable<F>(
        &self,
        launch: Launch<'_>,
        fusable: impl FnOnce() -> Option<Arc<dyn Fusable>>,
        cpu: F,
    ) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        let joins = self.tuning.chains && self.is_recording();
        let fusable = joins.then(fusable).flatten();
        let (work, mut cpu) = (launch.work(), Some(cpu));
        self.launch_any(&launch, work, fusable, &mut || boxed(&mut cpu))
    }

    /// One body for all kernels: `cpu` is called on the CPU device, once.
    fn launch_any(
        &self,
        launch: &Launch<'_>,
        work: Work,
        fusable: Option<Arc<dyn Fusable>>,
        cpu: &mut dyn FnMut() -> Option<CpuBody>,
    ) -> Result<(), CoreError> {
        check_bindings(launch.name, launch.bindings, self.source())?;
        if self.leaves_out() {
            return Ok(());
        }
        match self.stream() {
            Stream::Vulkan(stream) => stream.launch(launch, work, self.pace(), fusable),
            Stream::Cpu(stream) => match cpu() {
                Some(cpu) => stream.launch(launch, work, cpu, fusable),
                None => Ok(()),
            },
        }
    }
}

/// The body of a launch, taken out of its place.
fn boxed<F>(cpu: &mut Option<F>) -> Option<CpuBody>
where
    F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
{
    cpu.take().map(|cpu| Box::new(cpu) as CpuBody)
}
