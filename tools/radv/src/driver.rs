//! Opens Mesa's RADV for the chip that `RADV_FORCE_FAMILY` names, through ash alone: no card is needed.

use std::ffi::{CStr, c_void};

use ash::{Device, Entry, Instance, ext, khr, vk};
use hlx_spirv::FloatControls;

/// An opened driver; it stays open until the program ends.
pub struct Driver {
    pub device: Device,
    pub executables: khr::pipeline_executable_properties::Device,
    /// The chip and the version of Mesa.
    pub name: String,
    pub float_controls: FloatControls,
    /// The cooperative matrix of signed bytes that HLX would take.
    pub matrix: Option<Matrix>,
    // The library must outlive what came from it.
    _entry: Entry,
    _library: libloading::Library,
}

/// Rows, columns and terms of a product of matrices, and the threads that compute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    pub rows: u32,
    pub columns: u32,
    pub terms: u32,
    pub subgroup: u32,
}

impl Driver {
    /// Opens the chip; an error says what is missing.
    pub fn open() -> Result<Self, String> {
        // SAFETY: the Vulkan loader may be loaded by any program.
        let library = unsafe { libloading::Library::new("libvulkan.so.1") };
        let library = library.map_err(|error| format!("no Vulkan loader: {error}"))?;
        // SAFETY: the loader exports this function with this type.
        let get = unsafe { library.get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr") };
        let get_instance_proc_addr = *get.map_err(|error| format!("no Vulkan loader: {error}"))?;
        // SAFETY: the function is the loader's, which is held in `_library`.
        let entry = unsafe {
            Entry::from_static_fn(ash::StaticFn {
                get_instance_proc_addr,
            })
        };
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures live through the call.
        let instance = unsafe { entry.create_instance(&info, None) }.map_err(failed("instance"))?;
        // SAFETY: the instance is open.
        let devices = unsafe { instance.enumerate_physical_devices() };
        let physical = devices.map_err(failed("devices"))?.into_iter().next();
        let physical = physical.ok_or("the driver knows no such chip")?;
        let properties = Properties::of(&instance, physical);
        if properties.driver_id != vk::DriverId::MESA_RADV {
            return Err(format!("{} is not RADV's", properties.name));
        }
        let matrix = matrix(&entry, &instance, physical, properties.subgroup);
        let device = create_device(&instance, physical, matrix.is_some())?;
        Ok(Self {
            executables: khr::pipeline_executable_properties::Device::new(&instance, &device),
            device,
            name: properties.name,
            float_controls: properties.float_controls,
            matrix,
            _entry: entry,
            _library: library,
        })
    }
}

/// What the driver says of the chip.
struct Properties {
    name: String,
    driver_id: vk::DriverId,
    float_controls: FloatControls,
    subgroup: u32,
}

impl Properties {
    fn of(instance: &Instance, physical: vk::PhysicalDevice) -> Self {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut controls = vk::PhysicalDeviceFloatControlsProperties::default();
        let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
        let mut all = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut driver)
            .push_next(&mut controls)
            .push_next(&mut subgroup);
        // SAFETY: the chain holds structures of Vulkan 1.2, which the driver has.
        unsafe { instance.get_physical_device_properties2(physical, &mut all) };
        // `Null hardware (RADV NAVI31)` without a card.
        let device = text(&all.properties.device_name);
        let chip = device.split("RADV ").last().unwrap_or_default();
        let chip = chip.trim_end_matches(')').to_ascii_lowercase();
        Self {
            name: format!("{chip}, {}", text(&driver.driver_info)),
            driver_id: driver.driver_id,
            float_controls: FloatControls {
                preserve_zero_inf_nan: controls.shader_signed_zero_inf_nan_preserve_float32 != 0,
                flush_subnormals: controls.shader_denorm_flush_to_zero_float32 != 0,
            },
            subgroup: subgroup.subgroup_size,
        }
    }
}

/// The error of a call, with what it was for.
pub fn failed(what: &str) -> impl Fn(vk::Result) -> String {
    move |error| format!("{what}: {error}")
}

/// The text of a fixed array of Vulkan.
pub fn text(array: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|&c| c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

/// The product of signed bytes into 32 bits that HLX takes: its sizes divide parts of 16 rows, 64
/// columns and 64 terms, as in `hlx_core`'s list.
fn matrix(
    entry: &Entry,
    instance: &Instance,
    physical: vk::PhysicalDevice,
    subgroup: u32,
) -> Option<Matrix> {
    if !has_extension(instance, physical, khr::cooperative_matrix::NAME) {
        return None;
    }
    let list = khr::cooperative_matrix::Instance::new(entry, instance);
    // SAFETY: the driver lists the extension.
    let shapes = unsafe { list.get_physical_device_cooperative_matrix_properties(physical) };
    let (bytes, sums) = (vk::ComponentTypeKHR::SINT8, vk::ComponentTypeKHR::SINT32);
    let is_ours = |shape: &&vk::CooperativeMatrixPropertiesKHR<'_>| {
        [shape.a_type, shape.b_type] == [bytes; 2]
            && [shape.c_type, shape.result_type] == [sums; 2]
            && shape.saturating_accumulation == vk::FALSE
            && shape.scope == vk::ScopeKHR::SUBGROUP
            && [(shape.m_size, 16), (shape.n_size, 64), (shape.k_size, 64)]
                .iter()
                .all(|(size, whole): &(u32, u32)| *size != 0 && whole.is_multiple_of(*size))
    };
    let shapes = shapes.ok()?;
    let ours = shapes.iter().filter(is_ours);
    let shape = ours.max_by_key(|shape| shape.m_size * shape.n_size * shape.k_size)?;
    Some(Matrix {
        rows: shape.m_size,
        columns: shape.n_size,
        terms: shape.k_size,
        subgroup,
    })
}

fn has_extension(instance: &Instance, physical: vk::PhysicalDevice, name: &CStr) -> bool {
    // SAFETY: the physical device is of this instance.
    let listed = unsafe { instance.enumerate_device_extension_properties(physical) };
    let listed = listed.unwrap_or_default();
    let names = listed
        .iter()
        .map(|extension| text(&extension.extension_name));
    names
        .into_iter()
        .any(|found| found.as_bytes() == name.to_bytes())
}

/// The features of a device that this program deals with.
#[derive(Default)]
struct Features {
    matrices: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
    robustness: vk::PhysicalDevicePipelineRobustnessFeaturesEXT<'static>,
    executables: vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    v13: vk::PhysicalDeviceVulkan13Features<'static>,
}

impl Features {
    /// Puts the structures, and those of extensions where the device has them, in a chain.
    fn chain(&mut self, matrices: bool, robustness: bool) -> *mut c_void {
        let Self {
            matrices: of_matrices,
            robustness: of_robustness,
            executables,
            v12,
            v13,
        } = self;
        let mut next: *mut c_void = std::ptr::null_mut();
        if matrices {
            of_matrices.p_next = next;
            next = std::ptr::from_mut(of_matrices).cast();
        }
        if robustness {
            of_robustness.p_next = next;
            next = std::ptr::from_mut(of_robustness).cast();
        }
        executables.p_next = next;
        v12.p_next = std::ptr::from_mut(executables).cast();
        v13.p_next = std::ptr::from_mut(v12).cast();
        std::ptr::from_mut(v13).cast()
    }
}

/// Opens the device with the features that HLX enables, which change how a driver compiles.
fn create_device(
    instance: &Instance,
    physical: vk::PhysicalDevice,
    matrices: bool,
) -> Result<Device, String> {
    let robustness = has_extension(instance, physical, ext::pipeline_robustness::NAME);
    let mut listed = Features::default();
    let mut supported = vk::PhysicalDeviceFeatures2 {
        p_next: listed.chain(matrices, robustness),
        ..Default::default()
    };
    // SAFETY: the chain holds structures of versions and extensions that the driver has.
    unsafe { instance.get_physical_device_features2(physical, &mut supported) };
    let mut wanted = Features::default();
    wanted.matrices.cooperative_matrix = vk::TRUE;
    wanted.robustness.pipeline_robustness = vk::TRUE;
    wanted.executables.pipeline_executable_info = vk::TRUE;
    wanted.v13.shader_integer_dot_product = listed.v13.shader_integer_dot_product;
    if matrices {
        wanted.v12.vulkan_memory_model = vk::TRUE;
        wanted.v12.vulkan_memory_model_device_scope = vk::TRUE;
        wanted.v12.shader_int8 = vk::TRUE;
    }
    let features = vk::PhysicalDeviceFeatures {
        shader_float64: supported.features.shader_float64,
        shader_int64: supported.features.shader_int64,
        // Without the extension HLX makes the whole device robust.
        robust_buffer_access: u32::from(!robustness),
        ..Default::default()
    };
    let mut extensions = vec![khr::pipeline_executable_properties::NAME.as_ptr()];
    if robustness {
        extensions.push(ext::pipeline_robustness::NAME.as_ptr());
    }
    if matrices {
        extensions.push(khr::cooperative_matrix::NAME.as_ptr());
    }
    let queue = vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0]);
    let info = vk::DeviceCreateInfo {
        p_next: wanted.chain(matrices, robustness),
        ..vk::DeviceCreateInfo::default()
            .queue_create_infos(std::slice::from_ref(&queue))
            .enabled_extension_names(&extensions)
            .enabled_features(&features)
    };
    // SAFETY: the driver lists the extensions and features, and the structures live through the call.
    let device = unsafe { instance.create_device(physical, &info, None) };
    device.map_err(failed("cannot open the chip"))
}
