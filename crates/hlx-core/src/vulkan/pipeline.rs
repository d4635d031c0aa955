//! Compute pipelines: made once a shader and set of constants, cached in memory and on disk.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::hash::Hash;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::Duration;

use ash::vk;
use hlx_spirv::{interface, with_float_controls};
use sha2::{Digest, Sha256};
use vulkano::VulkanObject;
use vulkano::descriptor_set::layout::{
    DescriptorSetLayout, DescriptorSetLayoutBinding, DescriptorSetLayoutCreateInfo, DescriptorType,
};
use vulkano::device::Device;
use vulkano::pipeline::cache::{PipelineCache, PipelineCacheCreateInfo};
use vulkano::pipeline::layout::{PipelineLayout, PipelineLayoutCreateInfo, PushConstantRange};
use vulkano::shader::{ShaderModule, ShaderModuleCreateInfo, ShaderStages};

use super::{Modes, VulkanDevice, check_raw, translate_validated};
use crate::device::DeviceInfo;
use crate::error::CoreError;
use crate::files;
use crate::launch::Launch;
use crate::shader::Shader;

/// Specialization constants that every HLX shader may declare (`shaders/include/arith.glsl`).
const NATIVE_FMA_ID: u32 = 1000;
const NATIVE_FLUSH_ID: u32 = 1001;
/// Temporary files of this age in the cache folder were left by killed processes.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A pipeline with the layout of its one descriptor set: storage buffers 0, 1, 2, ...
pub(crate) struct Pipeline {
    pub handle: vk::Pipeline,
    pub layout: Arc<PipelineLayout>,
    pub set_layout: Option<Arc<DescriptorSetLayout>>,
    device: Arc<Device>,
}

impl Pipeline {
    /// Whether the pipeline was made on this device.
    pub fn is_of(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let destroy = self.device.fns().v1_0.destroy_pipeline;
        // SAFETY: the pipeline is of this device; who records it keeps it until the device is
        // done with it.
        unsafe { destroy(self.device.handle(), self.handle, std::ptr::null()) };
    }
}

/// What makes two pipelines the same.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PipelineRequest {
    shader: ByAddress,
    specialization: Vec<(u32, u32)>,
    bindings: usize,
    push_bytes: usize,
    /// Whether dispatches may begin at another workgroup than the first.
    based: bool,
}

/// A shader of the program: there is one of each.
#[derive(Clone, Copy)]
struct ByAddress(&'static Shader);

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for ByAddress {}

impl std::hash::Hash for ByAddress {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

/// The device's modes as specialization constants.
fn mode_constants(modes: &Modes) -> [(u32, u32); 2] {
    [
        (NATIVE_FMA_ID, modes.native_fma),
        (NATIVE_FLUSH_ID, modes.native_flush),
    ]
}

impl PipelineRequest {
    /// The pipeline of a launch; `based` if it is cut by ranges of workgroups.
    pub fn of(launch: &Launch<'_>, device: &VulkanDevice, based: bool) -> Self {
        let mut specialization = launch.specialization.to_vec();
        // The probe, which finds the modes, runs without.
        specialization.extend(device.modes.get().into_iter().flat_map(mode_constants));
        Self {
            shader: ByAddress(launch.shader),
            specialization,
            bindings: launch.bindings.len(),
            push_bytes: launch.push.len(),
            based,
        }
    }
}

/// Pipelines by their requests.
pub(crate) type Pipelines = HashMap<PipelineRequest, Arc<Pipeline>>;

/// The pipelines of one device.
pub(crate) struct PipelineStore {
    cache: Arc<PipelineCache>,
    cache_path: Option<PathBuf>,
    pipelines: Pipelines,
    layouts: HashMap<(usize, usize), Layouts>,
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

/// Replaces a file of the cache folder as one; the folder is made if it is not there.
pub(crate) fn write_atomically(path: &Path, data: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(files::parent(path))?;
    files::write_atomically(path, data)
}

/// The first bytes of a pipeline cache on disk; the SHA-256 of the rest follows them.
const CACHE_MAGIC: &[u8; 16] = b"HLX pipelines 1\n";

/// Puts the checksum in front of a driver's cache data.
fn seal_cache(data: &[u8]) -> Vec<u8> {
    [CACHE_MAGIC, &Sha256::digest(data)[..], data].concat()
}

/// Returns the driver's data of a cache file, if its checksum is right: drivers check the header
/// of what they are given and trust the rest.
fn unseal_cache(bytes: &[u8]) -> Option<&[u8]> {
    let (checksum, data) = bytes.strip_prefix(CACHE_MAGIC)?.split_at_checked(32)?;
    (Sha256::digest(data)[..] == *checksum).then_some(data)
}

/// Reads the driver's data of a cache file; none of a file that is not there or damaged.
fn read_cache(path: &Path) -> Vec<u8> {
    let Ok(bytes) = std::fs::read(path) else {
        return Vec::new();
    };
    let data = unseal_cache(&bytes);
    if data.is_none() {
        let path = path.display();
        tracing::warn!("pipeline cache {path}: damaged or of an older HLX; it is made anew");
    }
    data.map(<[u8]>::to_vec).unwrap_or_default()
}

impl PipelineStore {
    pub fn open(device: &Arc<Device>, info: &DeviceInfo) -> Result<Self, CoreError> {
        let cache_path =
            cache_dir().map(|dir| dir.join(format!("pipelines-{}.bin", info.cache_key)));
        let initial_data = cache_path.as_deref().map(read_cache).unwrap_or_default();
        // SAFETY: the file's name carries vendor, device, driver and cache UUID, and its checksum
        // shows that the data are those that `save` was given by that driver.
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
            layouts: HashMap::new(),
            created: 0,
            device_name,
        })
    }

    /// Returns the pipeline of a launch.
    pub fn get(
        &mut self,
        device: &VulkanDevice,
        request: &PipelineRequest,
    ) -> Result<Arc<Pipeline>, CoreError> {
        if let Some(pipeline) = self.pipelines.get(request) {
            return Ok(Arc::clone(pipeline));
        }
        let mut found = self.prepare(device, std::iter::once(request))?;
        let missing = || CoreError::invalid(request.shader.0.name(), "no pipeline was made");
        found.remove(request).ok_or_else(missing)
    }

    /// Returns the pipelines of many launches; those that are missing are made side by side, as
    /// a driver takes from one to several hundred milliseconds for each.
    pub fn prepare<'a>(
        &mut self,
        device: &VulkanDevice,
        requests: impl Iterator<Item = &'a PipelineRequest>,
    ) -> Result<Pipelines, CoreError> {
        let (mut ready, mut missing) = (HashMap::new(), HashMap::new());
        for request in requests {
            if let Some(pipeline) = self.pipelines.get(request) {
                ready.insert(request.clone(), Arc::clone(pipeline));
            } else if !missing.contains_key(request) {
                let layouts = self.layouts(device, request.bindings, request.push_bytes)?;
                missing.insert(request.clone(), layouts);
            }
        }
        self.created += missing.len();
        let cache = &self.cache;
        for (request, pipeline) in in_parallel(missing, |request, layouts| {
            make(device, cache, request, layouts)
        }) {
            let pipeline = Arc::new(pipeline?);
            self.pipelines
                .insert(request.clone(), Arc::clone(&pipeline));
            ready.insert(request, pipeline);
        }
        Ok(ready)
    }

    fn layouts(
        &mut self,
        device: &VulkanDevice,
        bindings: usize,
        push_bytes: usize,
    ) -> Result<Layouts, CoreError> {
        if let Some(layouts) = self.layouts.get(&(bindings, push_bytes)) {
            return Ok(layouts.clone());
        }
        let layouts = make_layout(&device.device, bindings, push_bytes).map_err(|error| {
            translate_validated(&self.device_name, "create a pipeline layout", error)
        })?;
        self.layouts.insert((bindings, push_bytes), layouts.clone());
        Ok(layouts)
    }

    /// Makes a pipeline from a module of the user's.
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
        check_interface(name, words, bindings, push_bytes)?;
        let words = with_float_controls(words, device.float_controls);
        // SAFETY: vulkano's parser checks the module's structure; that it means what Vulkan
        // allows is the caller's word.
        let module = unsafe {
            ShaderModule::new(
                Arc::clone(&device.device),
                ShaderModuleCreateInfo::new(&words),
            )
        }
        .map_err(|error| {
            let during = format!("{name}: create the shader module");
            translate_validated(&self.device_name, &during, error)
        })?;
        let no_entry = || CoreError::invalid(name, format!("no entry point `{entry_point}`"));
        if module.entry_point(entry_point).is_none() {
            return Err(no_entry());
        }
        let entry = CString::new(entry_point).map_err(|_| no_entry())?;
        let layouts = self.layouts(device, bindings, push_bytes)?;
        self.created += 1;
        let mut constants = constants.to_vec();
        constants.extend(device.modes.get().into_iter().flat_map(mode_constants));
        let stage = Stage {
            name,
            module: module.handle(),
            entry: &entry,
            constants: &constants,
            robust: device.robust_pipelines,
            based: false,
        };
        compile(device, &self.cache, &stage, &layouts)
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
        let written = write_atomically(path, &seal_cache(&data))
            .and_then(|()| files::remove_temporaries(files::parent(path), ABANDONED));
        if let Err(error) = written {
            tracing::warn!("pipeline cache {}: {error}", path.display());
        }
    }
}

/// Runs `body` on every entry of a map, on all cores.
fn in_parallel<K: Eq + Hash + Sync, V: Sync, R: Send + Sync>(
    map: HashMap<K, V>,
    body: impl Fn(&K, &V) -> R + Sync,
) -> Vec<(K, R)> {
    let entries: Vec<(K, V)> = map.into_iter().collect();
    let results: Vec<OnceLock<R>> = entries.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let idx = next.fetch_add(1, Ordering::Relaxed);
            let (Some((key, value)), Some(result)) = (entries.get(idx), results.get(idx)) else {
                return;
            };
            let _ = result.set(body(key, value));
        }
    };
    let cores = available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 1..cores.min(entries.len()) {
            scope.spawn(work);
        }
        work();
    });
    let keys = entries.into_iter().map(|(key, _)| key);
    keys.zip(results)
        .filter_map(|(key, result)| Some((key, result.into_inner()?)))
        .collect()
}

/// Checks that a pipeline's layout has every buffer and push-constant byte that its shader
/// declares: a driver reads past the descriptors of a layout that is too small.
fn check_interface(
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
fn make(
    device: &VulkanDevice,
    cache: &PipelineCache,
    request: &PipelineRequest,
    layouts: &Layouts,
) -> Result<Pipeline, CoreError> {
    let name = request.shader.0.name();
    let words = request.shader.0.words();
    check_interface(name, &words, request.bindings, request.push_bytes)?;
    let words = with_float_controls(&words, device.float_controls);
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
        entry: c"main",
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
struct Stage<'a> {
    name: &'a str,
    module: vk::ShaderModule,
    entry: &'a CStr,
    /// Those that the module does not declare have no effect.
    constants: &'a [(u32, u32)],
    /// How accesses to buffers are bounded; `None` leaves that to the device.
    robust: Option<vk::PipelineRobustnessBufferBehaviorEXT>,
    /// Lets dispatches begin at another workgroup than the first.
    based: bool,
}

fn compile(
    device: &VulkanDevice,
    cache: &PipelineCache,
    stage: &Stage<'_>,
    (layout, set_layout): &Layouts,
) -> Result<Pipeline, CoreError> {
    let words: Vec<u32> = stage.constants.iter().map(|&(_, word)| word).collect();
    let data: &[u8] = bytemuck::cast_slice(&words);
    let entry = |(idx, &(id, _)): (usize, &(u32, u32))| vk::SpecializationMapEntry {
        constant_id: id,
        offset: 4 * idx as u32,
        size: 4,
    };
    let entries: Vec<_> = stage.constants.iter().enumerate().map(entry).collect();
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
    let vulkan = &device.device;
    let mut pipeline = vk::Pipeline::null();
    // SAFETY: module and layout are alive, the structures live through the call, and the cache
    // is one that the driver guards itself.
    let result = unsafe {
        (vulkan.fns().v1_0.create_compute_pipelines)(
            vulkan.handle(),
            cache.handle(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_pipeline_cache_is_ignored() {
        let file = seal_cache(b"what a driver keeps");
        assert_eq!(unseal_cache(&file), Some(&b"what a driver keeps"[..]));
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(unseal_cache(&damaged), None, "byte {at}");
            assert_eq!(unseal_cache(&file[..at]), None, "{at} bytes");
        }
        let path = std::env::temp_dir().join(format!("hlx-cache-{}.bin", std::process::id()));
        write_atomically(&path, &file).expect("writes");
        assert_eq!(read_cache(&path), b"what a driver keeps");
        std::fs::write(&path, b"raw data of an older version").expect("writes");
        assert!(read_cache(&path).is_empty());
        std::fs::remove_file(&path).expect("removes");
    }
}
