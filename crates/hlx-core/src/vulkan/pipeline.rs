//! Compute pipelines: made once a shader and set of constants, cached in memory and on disk.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use vulkano::descriptor_set::layout::{
    DescriptorSetLayout, DescriptorSetLayoutBinding, DescriptorSetLayoutCreateInfo, DescriptorType,
};
use vulkano::device::Device;
use vulkano::pipeline::PipelineShaderStageCreateInfo;
use vulkano::pipeline::cache::{PipelineCache, PipelineCacheCreateInfo};
use vulkano::pipeline::compute::{ComputePipeline, ComputePipelineCreateInfo};
use vulkano::pipeline::layout::{PipelineLayout, PipelineLayoutCreateInfo, PushConstantRange};
use vulkano::shader::{ShaderModule, ShaderModuleCreateInfo, ShaderStages, SpecializationConstant};

use super::spirv::with_float_controls;
use super::{VulkanDevice, translate_validated};
use crate::device::DeviceInfo;
use crate::error::CoreError;
use crate::shader::Shader;

/// Specialization constants that every HLX shader may declare (`shaders/include/arith.glsl`).
const NATIVE_FMA_ID: u32 = 1000;
const NATIVE_FLUSH_ID: u32 = 1001;

/// A pipeline with the layout of its one descriptor set: storage buffers 0, 1, 2, ...
pub(crate) struct Pipeline {
    pub pipeline: Arc<ComputePipeline>,
    pub layout: Arc<PipelineLayout>,
    pub set_layout: Option<Arc<DescriptorSetLayout>>,
}

/// What makes two pipelines the same.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    shader: usize,
    specialization: Vec<(u32, u32)>,
    bindings: usize,
    push_bytes: usize,
}

/// The pipelines of one device.
pub(crate) struct PipelineStore {
    cache: Arc<PipelineCache>,
    cache_path: Option<PathBuf>,
    pipelines: HashMap<Key, Arc<Pipeline>>,
    created: usize,
    device_name: String,
}

/// The folder of HLX's caches: `HLX_CACHE_DIR`, else `hlx` below the user's cache folder.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("HLX_CACHE_DIR") {
        return Some(PathBuf::from(dir));
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("LOCALAPPDATA").map(PathBuf::from))
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(base.join("hlx"))
}

/// Writes a file whole or not at all: a temporary file beside it, then a rename.
pub(crate) fn write_atomically(path: &std::path::Path, data: &[u8]) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    std::fs::write(&temporary, data)?;
    std::fs::rename(&temporary, path)
}

impl PipelineStore {
    pub fn open(device: &Arc<Device>, info: &DeviceInfo) -> Result<Self, CoreError> {
        let cache_path =
            cache_dir().map(|dir| dir.join(format!("pipelines-{}.bin", info.cache_key)));
        let initial_data = cache_path
            .as_ref()
            .and_then(|path| std::fs::read(path).ok())
            .unwrap_or_default();
        // SAFETY: the file's name carries vendor, device, driver and cache UUID, and only whole
        // files written by `save` have it; the driver checks the header besides.
        let cache = unsafe {
            PipelineCache::new(
                Arc::clone(device),
                PipelineCacheCreateInfo {
                    initial_data,
                    ..PipelineCacheCreateInfo::default()
                },
            )
        }
        .map_err(|error| translate_validated(&info.name, "create the pipeline cache", error))?;
        let device_name = info.name.clone();
        Ok(Self {
            cache,
            cache_path,
            pipelines: HashMap::new(),
            created: 0,
            device_name,
        })
    }

    /// Returns the pipeline for a shader of the program.
    pub fn get(
        &mut self,
        device: &VulkanDevice,
        shader: &'static Shader,
        specialization: &[(u32, u32)],
        bindings: usize,
        push_bytes: usize,
    ) -> Result<Arc<Pipeline>, CoreError> {
        let mut constants = specialization.to_vec();
        if let Some(modes) = device.modes.get() {
            constants.push((NATIVE_FMA_ID, modes.native_fma));
            constants.push((NATIVE_FLUSH_ID, modes.native_flush));
        }
        let key = Key {
            shader: std::ptr::from_ref(shader) as usize,
            specialization: constants,
            bindings,
            push_bytes,
        };
        if let Some(pipeline) = self.pipelines.get(&key) {
            return Ok(Arc::clone(pipeline));
        }
        let words = shader.words();
        let pipeline = Arc::new(self.create(
            device,
            shader.name,
            &words,
            "main",
            &key.specialization,
            bindings,
            push_bytes,
        )?);
        self.pipelines.insert(key, Arc::clone(&pipeline));
        Ok(pipeline)
    }

    /// Makes a pipeline. Constants that the module does not declare are left out.
    #[allow(clippy::too_many_arguments)]
    pub fn create(
        &mut self,
        device: &VulkanDevice,
        name: &str,
        words: &[u32],
        entry_point: &str,
        constants: &[(u32, u32)],
        bindings: usize,
        push_bytes: usize,
    ) -> Result<Pipeline, CoreError> {
        let translate = |during: &str, error| {
            translate_validated(&self.device_name, &format!("{name}: {during}"), error)
        };
        let words = with_float_controls(words, device.float_controls);
        // SAFETY: vulkano's parser checks the module's structure; that it means what Vulkan
        // allows is proved by spirv-val when it is compiled, or is the caller's word.
        let module = unsafe {
            ShaderModule::new(
                Arc::clone(&device.device),
                ShaderModuleCreateInfo::new(&words),
            )
        }
        .map_err(|error| translate("create the shader module", error))?;
        let declared = module.specialization_constants();
        let values = constants
            .iter()
            .filter_map(|&(id, word)| declared.get(&id).map(|kind| (id, typed(kind, word))))
            .collect();
        let entry = module
            .specialize(values)
            .map_err(|error| translate("specialize", error.into()))?
            .entry_point(entry_point)
            .ok_or_else(|| CoreError::invalid(name, format!("no entry point `{entry_point}`")))?;
        let (layout, set_layout) = make_layout(&device.device, bindings, push_bytes)
            .map_err(|error| translate("create the layout", error))?;
        let stage = PipelineShaderStageCreateInfo::new(entry);
        let create_info = ComputePipelineCreateInfo::stage_layout(stage, Arc::clone(&layout));
        let pipeline = ComputePipeline::new(
            Arc::clone(&device.device),
            Some(Arc::clone(&self.cache)),
            create_info,
        )
        .map_err(|error| translate("create the pipeline", error))?;
        self.created += 1;
        Ok(Pipeline {
            pipeline,
            layout,
            set_layout,
        })
    }

    /// Writes the cache to disk if pipelines were made since it was last written. A cache that cannot
    /// be written costs time at the next start and nothing else, so that is only logged.
    pub fn save(&mut self) {
        let Some(path) = self.cache_path.as_ref().filter(|_| self.created > 0) else {
            return;
        };
        self.created = 0;
        let data = match self.cache.get_data() {
            Ok(data) => data,
            Err(error) => return tracing::warn!("pipeline cache: {error}"),
        };
        if let Err(error) = write_atomically(path, &data) {
            tracing::warn!("pipeline cache {}: {error}", path.display());
        }
    }
}

/// Gives a constant's word the type that the module declares.
fn typed(declared: &SpecializationConstant, word: u32) -> SpecializationConstant {
    match declared {
        SpecializationConstant::Bool(_) => SpecializationConstant::Bool(word != 0),
        SpecializationConstant::I32(_) => SpecializationConstant::I32(word as i32),
        SpecializationConstant::F32(_) => SpecializationConstant::F32(f32::from_bits(word)),
        _ => SpecializationConstant::U32(word),
    }
}

type Layouts = (Arc<PipelineLayout>, Option<Arc<DescriptorSetLayout>>);

/// Writes the layout by hand: vulkano's reflection misses buffers that only cooperative-matrix
/// instructions touch.
fn make_layout(
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
