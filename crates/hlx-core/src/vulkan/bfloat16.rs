//! bf16 in shaders, by `VK_KHR_shader_bfloat16`, which vulkano 0.35 does not know: a loader that adds the extension and its
//! features to the devices that vulkano makes, where the driver has them.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use ash::vk;
use vulkano::library::{DynamicLibraryLoader, Loader};

const EXTENSION: &CStr = c"VK_KHR_shader_bfloat16";
/// The component type of a cooperative matrix of bf16.
pub(super) const COMPONENT: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_141_000);

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`.
#[repr(C)]
struct Features {
    s_type: vk::StructureType,
    next: *mut c_void,
    of_type: vk::Bool32,
    dot_product: vk::Bool32,
    cooperative_matrix: vk::Bool32,
}

impl Features {
    const fn new() -> Self {
        Self {
            s_type: vk::StructureType::from_raw(1_000_141_000),
            next: std::ptr::null_mut(),
            of_type: vk::FALSE,
            dot_product: vk::FALSE,
            cooperative_matrix: vk::FALSE,
        }
    }
}

/// A function of any type, as loaders return it.
type Any = unsafe extern "system" fn();

/// The driver's functions that this module calls.
#[derive(Clone, Copy)]
struct Functions {
    create_device: vk::PFN_vkCreateDevice,
    features: vk::PFN_vkGetPhysicalDeviceFeatures2,
    extensions: vk::PFN_vkEnumerateDeviceExtensionProperties,
}

/// Those of the process's one instance, once it looks for its functions.
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// A loader whose instances make devices with bf16 where the driver has it.
pub(super) struct WithBfloat16(pub DynamicLibraryLoader);

// SAFETY: every function is the library's own, except `vkCreateDevice`, which calls the library's.
unsafe impl Loader for WithBfloat16 {
    unsafe fn get_instance_proc_addr(
        &self,
        instance: vk::Instance,
        name: *const c_char,
    ) -> vk::PFN_vkVoidFunction {
        // SAFETY: the caller's arguments are passed on; `name` is a string.
        let (found, name) = unsafe {
            (
                self.0.get_instance_proc_addr(instance, name),
                CStr::from_ptr(name),
            )
        };
        if name != c"vkCreateDevice" || found.is_none() {
            return found;
        }
        let of = |name: &CStr| {
            // SAFETY: as above.
            unsafe { self.0.get_instance_proc_addr(instance, name.as_ptr()) }
        };
        let features = of(c"vkGetPhysicalDeviceFeatures2");
        let extensions = of(c"vkEnumerateDeviceExtensionProperties");
        let (Some(create), Some(features), Some(extensions)) = (found, features, extensions) else {
            return found;
        };
        // SAFETY: functions of these names have these types.
        let functions = unsafe {
            Functions {
                create_device: std::mem::transmute::<Any, vk::PFN_vkCreateDevice>(create),
                features: std::mem::transmute::<Any, vk::PFN_vkGetPhysicalDeviceFeatures2>(
                    features,
                ),
                extensions: std::mem::transmute::<Any, vk::PFN_vkEnumerateDeviceExtensionProperties>(
                    extensions,
                ),
            }
        };
        let _ = FUNCTIONS.set(functions);
        let ours: vk::PFN_vkCreateDevice = create_device;
        // SAFETY: a pointer to a function, which is called by its own type again.
        vk::PFN_vkVoidFunction::Some(unsafe {
            std::mem::transmute::<vk::PFN_vkCreateDevice, Any>(ours)
        })
    }
}

/// Makes a device as the caller says, with bf16 besides where the driver has it.
///
/// # Safety
/// As `vkCreateDevice`.
unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    let Some(functions) = FUNCTIONS.get() else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the caller's structure, which lives through the call.
    let mut own = unsafe { *info };
    let mut features = Features::new();
    let mut names: Vec<*const c_char> = Vec::new();
    if is_supported(physical) {
        if own.enabled_extension_count > 0 {
            let (first, count) = (own.pp_enabled_extension_names, own.enabled_extension_count);
            // SAFETY: the list has as many names as the structure says.
            names.extend(unsafe { std::slice::from_raw_parts(first, count as usize) });
        }
        names.push(EXTENSION.as_ptr());
        own.enabled_extension_count = names.len() as u32;
        own.pp_enabled_extension_names = names.as_ptr();
        features.next = own.p_next.cast_mut();
        features.of_type = vk::TRUE;
        features.cooperative_matrix = vk::TRUE;
        own.p_next = (&raw const features).cast();
    }
    // SAFETY: the caller's arguments, and structures that live through the call.
    unsafe { (functions.create_device)(physical, &raw const own, allocator, device) }
}

/// Whether a device has cooperative matrices of bf16; those that vulkano has made have them enabled then.
pub(super) fn is_supported(physical: vk::PhysicalDevice) -> bool {
    let Some(functions) = FUNCTIONS.get() else {
        return false;
    };
    if !lists_extension(functions, physical) {
        return false;
    }
    let mut found = Features::new();
    let mut all = vk::PhysicalDeviceFeatures2 {
        p_next: (&raw mut found).cast(),
        ..vk::PhysicalDeviceFeatures2::default()
    };
    // SAFETY: both structures live through the call, and the device lists the extension of the second.
    unsafe { (functions.features)(physical, &raw mut all) };
    [found.of_type, found.cooperative_matrix] == [vk::TRUE; 2]
}

fn lists_extension(functions: &Functions, physical: vk::PhysicalDevice) -> bool {
    let list = |count: &mut u32, to: *mut vk::ExtensionProperties| {
        // SAFETY: without a list the call writes their number, with one at most as many as it has room for.
        unsafe { (functions.extensions)(physical, std::ptr::null(), count, to) }
    };
    let mut count = 0;
    if list(&mut count, std::ptr::null_mut()) != vk::Result::SUCCESS {
        return false;
    }
    let mut listed = vec![vk::ExtensionProperties::default(); count as usize];
    if list(&mut count, listed.as_mut_ptr()) != vk::Result::SUCCESS {
        return false;
    }
    let names = listed.iter().take(count as usize);
    names
        .map(|one| one.extension_name_as_c_str())
        .any(|name| name == Ok(EXTENSION))
}
