//! Compiles one module with its specialization constants, and reads what the driver says of the code.

use ash::vk;
use hlx_spirv::{interface, with_float_controls};

use crate::driver::{Driver, failed, text};

/// What became of a module: its machine code, and what the code takes of a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    pub assembly: String,
    pub vector_registers: u64,
    pub scalar_registers: u64,
    /// Registers of both kinds that were spilled.
    pub spilled: u64,
    /// Bytes of memory that a thread holds its spilled values and indexed arrays in.
    pub scratch_bytes: u64,
    pub shared_bytes: u64,
    /// Subgroups that a SIMD unit holds at a time.
    pub waves: u64,
    pub code_bytes: u64,
}

/// Compiles a module's `main`.
pub fn compile(driver: &Driver, words: &[u32], constants: &[(u32, u32)]) -> Result<Code, String> {
    let found = interface(words).map_err(|error| error.to_string())?;
    let words = with_float_controls(words, driver.float_controls);
    let bindings = found.bindings.last().map_or(0, |last| last + 1);
    let device = &driver.device;
    let info = vk::ShaderModuleCreateInfo::default().code(&words);
    // SAFETY: spirv-val has passed the module.
    let module = unsafe { device.create_shader_module(&info, None) }.map_err(failed("module"))?;
    let set_layout = set_layout(driver, bindings).map_err(failed("layout of the set"))?;
    let layout = layout(driver, set_layout, found.push_bytes).map_err(failed("layout"))?;
    let made = pipeline(driver, module, layout, constants).map_err(failed("pipeline"));
    let code = made.and_then(|made| {
        let code = read(driver, made).map_err(failed("properties"));
        // SAFETY: nothing uses the pipeline any more.
        unsafe { device.destroy_pipeline(made, None) };
        code
    });
    // SAFETY: as above.
    unsafe {
        device.destroy_pipeline_layout(layout, None);
        device.destroy_descriptor_set_layout(set_layout, None);
        device.destroy_shader_module(module, None);
    }
    code
}

/// Storage buffers 0, 1, 2, ...
fn set_layout(driver: &Driver, bindings: u32) -> Result<vk::DescriptorSetLayout, vk::Result> {
    let binding = |idx| {
        vk::DescriptorSetLayoutBinding::default()
            .binding(idx)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
    };
    let bindings: Vec<_> = (0..bindings).map(binding).collect();
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    // SAFETY: the structures live through the call.
    unsafe { driver.device.create_descriptor_set_layout(&info, None) }
}

fn layout(
    driver: &Driver,
    set_layout: vk::DescriptorSetLayout,
    push_bytes: u32,
) -> Result<vk::PipelineLayout, vk::Result> {
    let range = vk::PushConstantRange {
        stage_flags: vk::ShaderStageFlags::COMPUTE,
        offset: 0,
        size: push_bytes.max(4),
    };
    let info = vk::PipelineLayoutCreateInfo::default()
        .set_layouts(std::slice::from_ref(&set_layout))
        .push_constant_ranges(std::slice::from_ref(&range));
    // SAFETY: as above.
    unsafe { driver.device.create_pipeline_layout(&info, None) }
}

fn pipeline(
    driver: &Driver,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    constants: &[(u32, u32)],
) -> Result<vk::Pipeline, vk::Result> {
    let data: Vec<u8> = constants
        .iter()
        .flat_map(|(_, word)| word.to_le_bytes())
        .collect();
    let entry = |(idx, &(id, _)): (usize, &(u32, u32))| vk::SpecializationMapEntry {
        constant_id: id,
        offset: 4 * idx as u32,
        size: 4,
    };
    let entries: Vec<_> = constants.iter().enumerate().map(entry).collect();
    let specialization = vk::SpecializationInfo::default()
        .map_entries(&entries)
        .data(&data);
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&specialization);
    let flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
        | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
    let info = vk::ComputePipelineCreateInfo::default()
        .flags(flags)
        .stage(stage)
        .layout(layout);
    // SAFETY: module and layout are alive, and the structures live through the call.
    let made = unsafe {
        let cache = vk::PipelineCache::null();
        driver.device.create_compute_pipelines(cache, &[info], None)
    };
    made.map(|pipelines| pipelines[0])
        .map_err(|(_, error)| error)
}

fn read(driver: &Driver, pipeline: vk::Pipeline) -> Result<Code, vk::Result> {
    let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
    // SAFETY: the pipeline was made to collect its statistics.
    let statistics = unsafe { driver.executables.get_pipeline_executable_statistics(&info) }?;
    let mut code = Code {
        assembly: assembly(driver, &info)?,
        ..Code::default()
    };
    for statistic in &statistics {
        if statistic.format != vk::PipelineExecutableStatisticFormatKHR::UINT64 {
            continue;
        }
        // SAFETY: the format says that it is this member.
        let value = unsafe { statistic.value.u64 };
        match text(&statistic.name).to_ascii_lowercase().as_str() {
            "vgprs" => code.vector_registers = value,
            "sgprs" => code.scalar_registers = value,
            "spilled vgprs" | "spilled sgprs" => code.spilled += value,
            "scratch size" => code.scratch_bytes = value,
            "lds size" => code.shared_bytes = value,
            "subgroups per simd" | "subgroups per simd unit" => code.waves = value,
            "code size" => code.code_bytes = value,
            _ => {}
        }
    }
    Ok(code)
}

/// The machine code as text.
fn assembly(
    driver: &Driver,
    info: &vk::PipelineExecutableInfoKHR<'_>,
) -> Result<String, vk::Result> {
    let query = driver
        .executables
        .fp()
        .get_pipeline_executable_internal_representations_khr;
    let device = driver.device.handle();
    let mut count = 0;
    // SAFETY: without a list the call writes their number.
    unsafe { query(device, info, &mut count, std::ptr::null_mut()) }.result()?;
    let mut found =
        vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
    // SAFETY: the list has room for as many as the driver has counted; it writes their sizes.
    unsafe { query(device, info, &mut count, found.as_mut_ptr()) }.result()?;
    let mut texts: Vec<Vec<u8>> = found.iter().map(|one| vec![0; one.data_size]).collect();
    for (one, text) in found.iter_mut().zip(&mut texts) {
        one.p_data = text.as_mut_ptr().cast();
    }
    // SAFETY: every text has the size that the driver has named.
    unsafe { query(device, info, &mut count, found.as_mut_ptr()) }.result()?;
    let wanted = found
        .iter()
        .position(|one| text(&one.name).ends_with("Assembly"));
    let bytes = wanted.map(|idx| texts[idx].as_slice()).unwrap_or_default();
    Ok(String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .to_owned())
}
