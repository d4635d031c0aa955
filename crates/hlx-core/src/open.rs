//! Opening devices: choosing one by its name, and the probe that it must pass.

use std::sync::Arc;

use crate::arithmetic::{HalfMatrices, IntegerPath};
use crate::cpu_stream::CpuStream;
use crate::device::Device;
use crate::device_info::{DeviceInfo, DeviceKind, Selector, cpu_info};
use crate::environment;
use crate::error::CoreError;
use crate::memory::{BlockAllocator, BlockSource, HostAllocator};
use crate::no_gpu::why_no_gpu;
use crate::probe;
use crate::stream::Stream;
use crate::tuning::Tuning;
use crate::vulkan::{self, Pace, VulkanDevice, VulkanStream};

impl Device {
    /// Opens the device that `selector` names: `auto`, `cpu`, `vulkan` or `vulkan:N`.
    ///
    /// `auto` takes the first hardware GPU that passes the probe, else the CPU device: a
    /// software Vulkan driver is slower than that. `vulkan` takes the first GPU, else a software
    /// driver.
    ///
    /// # Errors
    /// [`CoreError::UnknownDevice`], [`CoreError::NoSuchDevice`], [`CoreError::ProbeFailed`],
    /// [`CoreError::Variable`], or the driver's error.
    pub fn open(selector: &str) -> Result<Self, CoreError> {
        let selected = Selector::parse(selector)?;
        if selected == Selector::Cpu {
            return Self::cpu();
        }
        if selected == Selector::Auto {
            return Self::open_auto();
        }
        let devices = vulkan::list().map_err(|error| no_such_device(selector, Some(&error)))?;
        let first_gpu = devices
            .iter()
            .position(|info| info.kind == DeviceKind::VulkanGpu);
        let index = match selected {
            Selector::VulkanIndex(index) => index,
            _ => first_gpu.unwrap_or(0),
        };
        if index >= devices.len() {
            return Err(no_such_device(selector, None));
        }
        Self::vulkan(index)
    }

    /// Opens the device named by the environment variable `HLX_DEVICE`, else by `selector`.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open_from_env(selector: &str) -> Result<Self, CoreError> {
        match environment::text("HLX_DEVICE")? {
            Some(named) => Self::open(&named),
            None => Self::open(selector),
        }
    }

    fn open_auto() -> Result<Self, CoreError> {
        for (index, info) in vulkan_devices().iter().enumerate() {
            if info.kind != DeviceKind::VulkanGpu {
                continue;
            }
            match Self::vulkan(index) {
                Ok(device) => return Ok(device),
                Err(error) => tracing::warn!("{info} is passed over: {error}"),
            }
        }
        Self::cpu()
    }

    /// Opens the CPU device.
    ///
    /// # Errors
    /// [`CoreError::ProbeFailed`] if the processor's arithmetic is not HLX's; [`CoreError::Variable`] for an
    /// environment variable whose value means nothing.
    pub fn cpu() -> Result<Self, CoreError> {
        environment::check()?;
        let threads = crate::cpu::worker_pool(crate::cpu::thread_count())?;
        let info = cpu_info();
        let report = threads.install(probe::run_cpu);
        report.check(&info.name)?;
        let source = BlockSource::new(&info.name, &info.selector, Arc::new(HostAllocator));
        let source = Arc::new(source);
        let stream = Stream::Cpu(CpuStream::new(threads, Arc::clone(&source)));
        let tuning = Tuning::of(&info, true);
        Ok(Self::from_parts(stream, source, info).with_probe(
            report,
            vec![IntegerPath::Plain],
            HalfMatrices::default(),
            tuning,
        ))
    }

    /// Opens the Vulkan device of this index in [`Device::devices`]'s order.
    fn vulkan(index: usize) -> Result<Self, CoreError> {
        environment::check()?;
        let vulkan = VulkanDevice::open(index)?;
        let info = vulkan.info.clone();
        let allocator = Arc::clone(&vulkan) as Arc<dyn BlockAllocator>;
        let source = Arc::new(BlockSource::new(&info.name, &info.selector, allocator));
        let pace = Pace::of(&Tuning::of(&info, true));
        let stream = VulkanStream::new(Arc::clone(&vulkan), Arc::clone(&source), pace);
        let device = Self::from_parts(Stream::Vulkan(Box::new(stream)), source, info);
        let probed = probe::run_vulkan(&device, &vulkan)?;
        probed.report.check(&device.info().name)?;
        let mut tuning = Tuning::of(device.info(), vulkan.native_arithmetic());
        if let Some(peak) = probed.peak {
            tuning.flops_per_second = peak.flops_per_second;
            tuning.bytes_per_second = peak.bytes_per_second;
        }
        Ok(device.with_probe(probed.report, probed.integers.all(), probed.halves, tuning))
    }

    /// Lists the devices of this machine: the CPU device, then every Vulkan device.
    pub fn devices() -> Vec<DeviceInfo> {
        std::iter::once(cpu_info())
            .chain(vulkan_devices())
            .collect()
    }

    /// Opens the CPU device and every Vulkan device that passes the probe.
    ///
    /// # Errors
    /// As [`Device::open`]: a device that is there and cannot be opened is an error.
    pub fn all() -> Result<Vec<Self>, CoreError> {
        let mut devices = vec![Self::cpu()?];
        for index in 0..vulkan_devices().len() {
            devices.push(Self::vulkan(index)?);
        }
        Ok(devices)
    }
}

/// The Vulkan devices; none, and a line in the log, where Vulkan cannot be initialised.
fn vulkan_devices() -> Vec<DeviceInfo> {
    vulkan::list().unwrap_or_else(|error| {
        tracing::info!("no Vulkan: {error}");
        Vec::new()
    })
}

fn no_such_device(asked: &str, error: Option<&CoreError>) -> CoreError {
    let names: Vec<String> = Device::devices().iter().map(ToString::to_string).collect();
    let why = why_no_gpu().map(|why| format!("no Vulkan GPU: {why}"));
    let error = error.map(ToString::to_string);
    let reasons: Vec<String> = why.into_iter().chain(error).collect();
    let reasons = match reasons.is_empty() {
        true => String::new(),
        false => format!(" ({})", reasons.join("; ")),
    };
    CoreError::NoSuchDevice {
        asked: asked.to_owned(),
        available: format!("there is {}{reasons}", names.join(", ")),
    }
}
