//! Makes a pipeline: its layouts, its module, and the driver's compilation with constants.

use std::ffi::CStr;
use std::sync::Arc;

use ash::vk;
use hlx_spirv::{interface, rename_entry, with_float_controls};
use vulkano::VulkanObject;
use vulkano::descriptor_set::layout::{
    DescriptorSetLayout, DescriptorSetLayoutBinding, DescriptorSetLayoutCreateInfo, DescriptorType,
};
use vulkano::device::Device;
use vulkano::pipeline::cache::PipelineCache;
use vulkano::pipeline::layout::{PipelineLayout, PipelineLayoutCreateInfo, PushConstantRange};
use vulkano::shader::ShaderStages;

use super::{Pipeline, PipelineRequest};
use crate::error::CoreError;
use crate::test_report;
use crate::vulkan::{VulkanDevice, check_raw};

/// Checks that a pipeline's layout has every buffer and push-constant byte that its shader
/// declares: a driver reads past the descriptors of a layout that is too small.
pub(super) fn check_interface(
    name: &str,
    words: &[u32],
    bindings: usize,
    push_bytes: usize,
) -> Result<(), CoreError> {
    interface(words)
        .and_then(|interface| interface.check(bindings, push_bytes))
        .map_err(|error| CoreError::invalid(name, error.to_string()))
}

/// Makes the pipeline of a launch. Vulkan is called directly: vulkano would parse the module
/// again for each set of constants, which costs more than a driver with a warm cache.
pub(super) fn make(
    device: &VulkanDevice,
    cache: &PipelineCache,
    request: &PipelineRequest,
    layouts: &Layouts,
) -> Result<Pipeline, CoreError> {
    let name = request.shader.0.name();
    let words = request.shader.0.words();
    check_interface(name, &words, request.bindings, request.push_bytes)?;
    test_report::pipeline_made(name, &request.specialization);
    let mut words = with_float_controls(&words, device.float_controls);
    let entry = match request.based {
        true => {
            rename_entry(&mut words, b"part");
            c"part"
        }
        false => c"main",
    };
    let info = vk::ShaderModuleCreateInfo::default().code(&words);
    let (fns, handle) = (&device.device.fns().v1_0, device.device.handle());
    let mut module = vk::ShaderModule::null();
    // SAFETY: spirv-val has passed the module when it was compiled; `words` lives through the
    // call.
    let result =
        unsafe { (fns.create_shader_module)(handle, &info, std::ptr::null(), &mut module) };
    let during = format!("{name}: create the shader module");
    check_raw(&device.info.name, &during, result)?;
    let stage = Stage {
        name,
        module,
        entry,
        constants: &request.specialization,
        robust: None,
        based: request.based,
    };
    let pipeline = compile(device, cache, &stage, layouts);
    // SAFETY: the module is ours, and pipelines do not need it once they are made.
    unsafe { (fns.destroy_shader_module)(handle, module, std::ptr::null()) };
    pipeline
}

/// A module with its entry point and constants.
pub(super) struct Stage<'a> {
    pub name: &'a str,
    pub module: vk::ShaderModule,
    pub entry: &'a CStr,
    /// Those that the module does not declare have no effect.
    pub constants: &'a [(u32, u32)],
    /// How accesses to buffers are bounded; `None` leaves that to the device.
    pub robust: Option<vk::PipelineRobustnessBufferBehaviorEXT>,
    /// Lets dispatches begin at another workgroup than the first.
    pub based: bool,
}

/// Compiles a module's entry point with its constants.
pub(super) fn compile(
    device: &VulkanDevice,
    cache: &PipelineCache,
    stage: &Stage<'_>,
    layouts: &Layouts,
) -> Result<Pipeline, CoreError> {
    let (layout, set_layout) = layouts;
    // By their ids: validation layers up to 1.4.309 at least take the id of a matrix's size for a place in this list.
    let mut constants = stage.constants.to_vec();
    constants.sort_unstable();
    let words: Vec<u32> = constants.iter().map(|&(_, word)| word).collect();
    let data: &[u8] = bytemuck::cast_slice(&words);
    let entry = |(idx, &(id, _)): (usize, &(u32, u32))| vk::SpecializationMapEntry {
        constant_id: id,
        offset: 4 * idx as u32,
        size: 4,
    };
    let entries: Vec<_> = constants.iter().enumerate().map(entry).collect();
    let specialization = vk::SpecializationInfo::default()
        .map_entries(&entries)
        .data(data);
    let shader_stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(stage.module)
        .name(stage.entry)
        .specialization_info(&specialization);
    let mut robustness = vk::PipelineRobustnessCreateInfoEXT::default();
    let flags = match stage.based {
        true => vk::PipelineCreateFlags::DISPATCH_BASE,
        false => vk::PipelineCreateFlags::empty(),
    };
    let mut info = vk::ComputePipelineCreateInfo::default()
        .flags(flags)
        .stage(shader_stage)
        .layout(layout.handle());
    if let Some(behavior) = stage.robust {
        robustness = robustness.storage_buffers(behavior);
        info = info.push_next(&mut robustness);
    }
    // NVIDIA's driver 580 gives the pipeline of the same module without these flags where it has one, from a
    // cache read from disk (seen on an H200) or made before in the same process (on an H100): a cut launch then
    // wrote its first range alone. So a base has an entry point of another name, and no cache.
    let cache = match stage.based || stage.robust.is_some() {
        true => vk::PipelineCache::null(),
        false => cache.handle(),
    };
    let vulkan = &device.device;
    let mut pipeline = vk::Pipeline::null();
    // SAFETY: module and layout are alive, the structures live through the call, and the cache
    // is one that the driver guards itself.
    let result = unsafe {
        (vulkan.fns().v1_0.create_compute_pipelines)(
            vulkan.handle(),
            cache,
            1,
            &info,
            std::ptr::null(),
            &mut pipeline,
        )
    };
    let during = format!("{}: create the pipeline", stage.name);
    check_raw(&device.info.name, &during, result)?;
    Ok(Pipeline {
        handle: pipeline,
        layout: Arc::clone(layout),
        set_layout: set_layout.clone(),
        device: Arc::clone(vulkan),
    })
}

/// A pipeline's layout, and that of its one descriptor set if it has buffers.
pub(super) type Layouts = (Arc<PipelineLayout>, Option<Arc<DescriptorSetLayout>>);

/// Writes the layout by hand: vulkano's reflection misses buffers that only cooperative-matrix
/// instructions touch.
pub(super) fn make_layout(
    device: &Arc<Device>,
    bindings: usize,
    push_bytes: usize,
) -> Result<Layouts, vulkano::Validated<vulkano::VulkanError>> {
    let binding = DescriptorSetLayoutBinding {
        stages: ShaderStages::COMPUTE,
        ..DescriptorSetLayoutBinding::descriptor_type(DescriptorType::StorageBuffer)
    };
    let set_layout = if bindings == 0 {
        None
    } else {
        let create_info = DescriptorSetLayoutCreateInfo {
            bindings: (0..bindings as u32)
                .map(|index| (index, binding.clone()))
                .collect(),
            ..DescriptorSetLayoutCreateInfo::default()
        };
        Some(DescriptorSetLayout::new(Arc::clone(device), create_info)?)
    };
    let range = PushConstantRange {
        stages: ShaderStages::COMPUTE,
        offset: 0,
        size: push_bytes as u32,
    };
    let create_info = PipelineLayoutCreateInfo {
        set_layouts: set_layout.iter().cloned().collect(),
        push_constant_ranges: if push_bytes == 0 { vec![] } else { vec![range] },
        ..PipelineLayoutCreateInfo::default()
    };
    Ok((
        PipelineLayout::new(Arc::clone(device), create_info)?,
        set_layout,
    ))
}
