//! Compute pipelines: made once a shader and set of constants, cached in memory and on disk.

mod cache;
mod compile;

use std::collections::HashMap;
use std::ffi::CString;
use std::hash::Hash;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use ash::vk;
use hlx_spirv::with_float_controls;
use vulkano::VulkanObject;
use vulkano::descriptor_set::layout::DescriptorSetLayout;
use vulkano::device::Device;
use vulkano::pipeline::layout::PipelineLayout;
use vulkano::shader::{ShaderModule, ShaderModuleCreateInfo};

use self::cache::StoredCache;
use self::compile::{Layouts, Stage, check_interface, compile, make, make_layout};
use super::{Modes, VulkanDevice, translate_validated};
use crate::device_info::DeviceInfo;
use crate::error::CoreError;
use crate::launch::Launch;
use crate::shader::Shader;

/// Specialization constants that every HLX shader may declare (`shaders/include/arith.glsl`).
const NATIVE_FMA_ID: u32 = 1000;
const NATIVE_FLUSH_ID: u32 = 1001;

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
        // SAFETY: the pipeline is of this device; command buffers that use it keep it until the
        // device is done with it.
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
    /// The pipeline of a launch over this many windows; `based` if it is cut by ranges of workgroups.
    pub fn of(launch: &Launch<'_>, bindings: usize, device: &VulkanDevice, based: bool) -> Self {
        let mut specialization = launch.specialization.to_vec();
        // The probe, which finds the modes, runs without.
        specialization.extend(device.modes.get().into_iter().flat_map(mode_constants));
        Self {
            shader: ByAddress(launch.shader),
            specialization,
            bindings,
            push_bytes: launch.push.len(),
            based,
        }
    }
}

/// Pipelines by their requests.
pub(crate) type Pipelines = HashMap<PipelineRequest, Arc<Pipeline>>;

/// The pipelines of one device.
pub(crate) struct PipelineStore {
    stored: StoredCache,
    pipelines: Pipelines,
    layouts: HashMap<(usize, usize), Layouts>,
    created: usize,
    device_name: String,
}

impl PipelineStore {
    pub fn open(device: &Arc<Device>, info: &DeviceInfo) -> Result<Self, CoreError> {
        Ok(Self {
            stored: StoredCache::open(device, info)?,
            pipelines: HashMap::new(),
            layouts: HashMap::new(),
            created: 0,
            device_name: info.name.clone(),
        })
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
        let cache = &self.stored.cache;
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

    /// Keeps a pipeline; where another thread has made the same one meanwhile, that one.
    fn add(&mut self, request: &PipelineRequest, made: Pipeline) -> Arc<Pipeline> {
        self.created += 1;
        let entry = self.pipelines.entry(request.clone());
        Arc::clone(entry.or_insert_with(|| Arc::new(made)))
    }

    /// The names of the shaders whose pipelines were made, once for each set of constants.
    pub fn shader_names(&self) -> impl Iterator<Item = &'static str> {
        self.pipelines.keys().map(|request| request.shader.0.name())
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
        // SAFETY: vulkano's parser checks the module's structure; that it is valid for
        // Vulkan is guaranteed by the caller.
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
        compile(device, &self.stored.cache, &stage, &layouts)
    }

    /// Writes the cache to disk if pipelines were made since it was last written.
    pub fn save(&mut self) {
        if std::mem::take(&mut self.created) > 0 {
            self.stored.save();
        }
    }
}

impl VulkanDevice {
    /// The pipeline of a launch, if it was made before.
    pub(super) fn known_pipeline(&self, request: &PipelineRequest) -> Option<Arc<Pipeline>> {
        self.pipelines().pipelines.get(request).cloned()
    }

    /// Makes the pipeline of a launch. Other threads find theirs meanwhile: a driver takes up to seconds.
    pub(super) fn make_pipeline(
        &self,
        request: &PipelineRequest,
    ) -> Result<Arc<Pipeline>, CoreError> {
        let (cache, layouts) = {
            let mut store = self.pipelines();
            let layouts = store.layouts(self, request.bindings, request.push_bytes)?;
            (Arc::clone(&store.stored.cache), layouts)
        };
        let made = make(self, &cache, request, &layouts)?;
        Ok(self.pipelines().add(request, made))
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
