//! A Vulkan device: choosing it, opening it, its limits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ash::vk;
use hlx_spirv::FloatControls;
use vulkano::device::physical::{PhysicalDevice, PhysicalDeviceType};
use vulkano::device::{
    Device, DeviceCreateInfo, DeviceExtensions, DeviceFeatures, DeviceProperties, Queue,
    QueueCreateInfo, QueueFlags,
};

use super::dots::{self, DotProducts};
use super::matrices;
use super::pipeline::PipelineStore;
use super::{instance, memory, sharing, translate, translate_validated};
use crate::arithmetic::{Half, MatrixShape};
use crate::device_info::{DeviceInfo, DeviceKind};
use crate::error::CoreError;
use crate::fusion::Limits;

/// Whether the device's own instructions are HLX's arithmetic: 1 where they are, 0 where kernels
/// must emulate it. Found by the probe; goes into every pipeline as specialization constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Modes {
    pub native_fma: u32,
    pub native_flush: u32,
}

/// An opened Vulkan device with one compute queue.
pub(crate) struct VulkanDevice {
    pub device: Arc<Device>,
    pub queue: Arc<Queue>,
    pub info: DeviceInfo,
    pub float_controls: FloatControls,
    pub timestamp_period_ns: f64,
    /// The queue writes timestamps.
    pub has_timestamps: bool,
    pub modes: OnceLock<Modes>,
    pipelines: Mutex<PipelineStore>,
    pub(super) memory_type: u32,
    /// How far the pipelines of foreign shaders bound their accesses, where that can be set for
    /// single pipelines; otherwise the whole device has robust buffer access.
    pub robust_pipelines: Option<vk::PipelineRobustnessBufferBehaviorEXT>,
}

/// Lists the Vulkan devices, GPUs before software drivers. Without a loader, a driver or a
/// working instance this is an error that says which is missing.
pub(crate) fn list() -> Result<Vec<DeviceInfo>, CoreError> {
    Ok(physical_devices()?
        .into_iter()
        .map(|(_, info)| info)
        .collect())
}

fn physical_devices() -> Result<Vec<(Arc<PhysicalDevice>, DeviceInfo)>, CoreError> {
    let instance = instance::shared()?;
    let mut devices: Vec<Arc<PhysicalDevice>> = instance
        .enumerate_physical_devices()
        .map_err(|error| translate("Vulkan", "list devices", error))?
        .filter(|physical| compute_family(physical).is_some())
        .collect();
    let rank = |physical: &Arc<PhysicalDevice>| match physical.properties().device_type {
        PhysicalDeviceType::DiscreteGpu => 0,
        PhysicalDeviceType::IntegratedGpu => 1,
        PhysicalDeviceType::VirtualGpu => 2,
        PhysicalDeviceType::Cpu => 4,
        _ => 3,
    };
    devices.sort_by_key(rank);
    Ok(devices
        .into_iter()
        .enumerate()
        .map(|(index, physical)| {
            let info = describe(&physical, index);
            (physical, info)
        })
        .collect())
}

/// The queue family to use: one of compute without graphics, else any with compute.
fn compute_family(physical: &PhysicalDevice) -> Option<u32> {
    let families = physical.queue_family_properties();
    let computes = |flags: QueueFlags| flags.intersects(QueueFlags::COMPUTE);
    families
        .iter()
        .position(|family| {
            computes(family.queue_flags) && family.queue_flags.intersects(QueueFlags::GRAPHICS)
        })
        .or_else(|| {
            families
                .iter()
                .position(|family| computes(family.queue_flags))
        })
        .map(|index| index as u32)
}

fn describe(physical: &PhysicalDevice, index: usize) -> DeviceInfo {
    let properties = physical.properties();
    let kind = match properties.device_type {
        PhysicalDeviceType::Cpu => DeviceKind::VulkanSoftware,
        _ => DeviceKind::VulkanGpu,
    };
    let driver = match (&properties.driver_name, &properties.driver_info) {
        (Some(name), Some(info)) => format!("{name} {info}"),
        _ => format!("driver {:#x}", properties.driver_version),
    };
    let (memory_bytes, _) = memory::device_local_heap(physical);
    let uuid: String = properties
        .pipeline_cache_uuid
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    DeviceInfo {
        selector: format!("vulkan:{index}"),
        name: properties.device_name.clone(),
        kind,
        driver,
        memory_bytes,
        max_binding_words: u64::from(properties.max_storage_buffer_range) / 4,
        shared_memory_bytes: properties.max_compute_shared_memory_size,
        max_workgroup_invocations: properties.max_compute_work_group_invocations,
        max_workgroup_size: properties.max_compute_work_group_size,
        max_push_constant_bytes: properties.max_push_constants_size,
        processors: processors(properties, kind),
        subgroup_size: properties.subgroup_size.unwrap_or(0),
        cache_key: format!(
            "{:08x}-{:08x}-{:08x}-{uuid}",
            properties.vendor_id, properties.device_id, properties.driver_version
        ),
    }
}

/// Multiprocessors, compute units or shader cores, by the vendors' extensions; a software device's
/// are the machine's threads. 0 where no extension reports them.
fn processors(properties: &DeviceProperties, kind: DeviceKind) -> u32 {
    if kind == DeviceKind::VulkanSoftware {
        return crate::cpu::thread_count() as u32;
    }
    let amd = || {
        let engines = properties.shader_engine_count?;
        let arrays = properties.shader_arrays_per_engine_count?;
        Some(engines * arrays * properties.compute_units_per_shader_array?)
    };
    properties
        .shader_sm_count
        .or(properties.active_compute_unit_count)
        .or_else(amd)
        .or(properties.shader_core_count)
        .unwrap_or(0)
}

impl VulkanDevice {
    /// Returns the device of this index in [`list`]'s order, opened at its first use.
    ///
    /// Openings share it, and it stays open until the process ends; what a device allocates on it
    /// (memory, command buffers, staging) is freed with the device. NVIDIA's driver 580 deadlocks
    /// when one thread closes a device while another submits to a second one.
    pub fn open(index: usize) -> Result<Arc<Self>, CoreError> {
        static OPENED: Mutex<BTreeMap<usize, Arc<VulkanDevice>>> = Mutex::new(BTreeMap::new());
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = opened.get(&index) {
            return Ok(Arc::clone(device));
        }
        let device = Self::open_anew(index)?;
        opened.insert(index, Arc::clone(&device));
        Ok(device)
    }

    fn open_anew(index: usize) -> Result<Arc<Self>, CoreError> {
        let (physical, info) =
            physical_devices()?
                .into_iter()
                .nth(index)
                .ok_or_else(|| CoreError::NoSuchDevice {
                    asked: format!("vulkan:{index}"),
                    available: "the list of Vulkan devices is shorter".to_owned(),
                })?;
        if physical.api_version() < vulkano::Version::V1_2 {
            let failure = format!("Vulkan {} is older than 1.2", physical.api_version());
            return Err(CoreError::ProbeFailed {
                device: info.name,
                failure,
            });
        }
        let family = compute_family(&physical).ok_or_else(|| CoreError::NoSuchDevice {
            asked: info.selector.clone(),
            available: "it has no compute queue".to_owned(),
        })?;
        let (device, queue) = create_device(&physical, &info, family)?;
        let properties = physical.properties();
        let float_controls = FloatControls {
            preserve_zero_inf_nan: properties
                .shader_signed_zero_inf_nan_preserve_float32
                .unwrap_or(false),
            flush_subnormals: properties
                .shader_denorm_flush_to_zero_float32
                .unwrap_or(false),
        };
        let pipelines = Mutex::new(PipelineStore::open(&device, &info)?);
        let robust_pipelines = robust_pipelines(&physical);
        let timestamp_period_ns = f64::from(properties.timestamp_period);
        let queue_family = &physical.queue_family_properties()[family as usize];
        let has_timestamps = queue_family.timestamp_valid_bits.is_some();
        let memory_type = memory::device_local_type(&device, &info)?;
        Ok(Arc::new(Self {
            device,
            queue,
            info,
            float_controls,
            timestamp_period_ns,
            has_timestamps,
            modes: OnceLock::new(),
            pipelines,
            memory_type,
            robust_pipelines,
        }))
    }

    /// Whether the device fuses and flushes by itself, by its probe.
    pub fn native_arithmetic(&self) -> bool {
        let modes = self.modes.get();
        modes.is_some_and(|modes| modes.native_fma != 0 && modes.native_flush != 0)
    }

    /// The cooperative matrices of 8-bit integers that the device lists, the largest first; the probe tries them.
    pub fn matrix_shapes(&self) -> Vec<MatrixShape> {
        matrices::listed(self.device.physical_device())
    }

    /// The cooperative matrices of 16-bit floats that the device lists, likewise.
    pub fn half_matrix_shapes(&self, half: Half) -> Vec<MatrixShape> {
        matrices::listed_halves(self.device.physical_device(), half)
    }

    /// Whether the device has dot products of four bytes, and in hardware; the probe tries them.
    pub fn dot_products(&self) -> Option<DotProducts> {
        dots::of(self.device.physical_device())
    }

    /// What one launch may bind and be given.
    pub fn limits(&self) -> Limits {
        let properties = self.device.physical_device().properties();
        let stage = properties.max_per_stage_descriptor_storage_buffers;
        let set = properties.max_descriptor_set_storage_buffers;
        Limits {
            bindings: stage.min(set) as usize,
            push_bytes: properties.max_push_constants_size as usize,
        }
    }

    /// The device's pipelines; one lock for all devices.
    pub fn pipelines(&self) -> MutexGuard<'_, PipelineStore> {
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// How single pipelines can be made robust, if they can: with `robustBufferAccess2` an access is
/// bounded by the bound window (reads past it give zeros, writes are discarded), without it by
/// the Vulkan buffer. A pipeline may use the former where the device supports it, enabled or not.
fn robust_pipelines(physical: &PhysicalDevice) -> Option<vk::PipelineRobustnessBufferBehaviorEXT> {
    let supported = physical.supported_features();
    let single = physical.supported_extensions().ext_pipeline_robustness;
    if !(single && supported.pipeline_robustness) {
        return None;
    }
    Some(if supported.robust_buffer_access2 {
        vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS_2
    } else {
        vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS
    })
}

fn create_device(
    physical: &Arc<PhysicalDevice>,
    info: &DeviceInfo,
    family: u32,
) -> Result<(Arc<Device>, Arc<Queue>), CoreError> {
    let supported = physical.supported_features();
    // Shaders from outside may compute any index: their pipelines are robust. Where only whole
    // devices can be, HLX's own pipelines are too.
    let robust_pipelines = robust_pipelines(physical).is_some();
    let by_window = !robust_pipelines
        && physical.supported_extensions().ext_robustness2
        && supported.robust_buffer_access2;
    let mut features = DeviceFeatures {
        shader_float64: supported.shader_float64,
        shader_int64: supported.shader_int64,
        pipeline_robustness: robust_pipelines,
        robust_buffer_access: !robust_pipelines,
        robust_buffer_access2: by_window,
        ..DeviceFeatures::empty()
    };
    let mut extensions = DeviceExtensions {
        ext_pipeline_robustness: robust_pipelines,
        ext_robustness2: by_window,
        khr_portability_subset: physical.supported_extensions().khr_portability_subset,
        ext_memory_budget: physical.supported_extensions().ext_memory_budget,
        ..DeviceExtensions::empty()
    };
    matrices::enable(physical, &mut extensions, &mut features);
    if dots::of(physical).is_some() {
        dots::enable(physical, &mut extensions, &mut features);
    }
    sharing::enable(physical, &mut extensions, &mut features);
    let create_info = DeviceCreateInfo {
        queue_create_infos: vec![QueueCreateInfo {
            queue_family_index: family,
            ..QueueCreateInfo::default()
        }],
        enabled_extensions: extensions,
        enabled_features: features,
        ..DeviceCreateInfo::default()
    };
    let (device, mut queues) = Device::new(Arc::clone(physical), create_info)
        .map_err(|error| translate_validated(&info.name, "open the device", error))?;
    let queue = queues
        .next()
        .ok_or_else(|| CoreError::invalid("open device", "the driver gave no queue"))?;
    Ok((device, queue))
}
