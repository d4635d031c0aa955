//! The Vulkan instance, shared by all devices, and the validation layer's messages.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vulkano::instance::debug::{
    DebugUtilsMessageSeverity, DebugUtilsMessageType, DebugUtilsMessenger,
    DebugUtilsMessengerCallback, DebugUtilsMessengerCreateInfo, ValidationFeatureEnable,
};
use vulkano::instance::{Instance, InstanceCreateFlags, InstanceCreateInfo, InstanceExtensions};
use vulkano::library::{DynamicLibraryLoader, LoadingError};
use vulkano::{Validated, Version, VulkanError, VulkanLibrary, VulkanObject};

use super::bfloat16::WithBfloat16;

use crate::environment;
use crate::error::CoreError;

const VALIDATION_LAYER: &str = "VK_LAYER_KHRONOS_validation";

/// One instance per process, made at first use and never dropped: it costs a tenth of a second and more (the
/// loader reads every driver), and NVIDIA's driver 580 refuses to make one after some 80 have
/// been made and destroyed.
static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// The instance, and what receives the layer's messages for as long as it lives.
struct Shared {
    instance: Arc<Instance>,
    _messenger: Option<DebugUtilsMessenger>,
}

static VALIDATION_MESSAGES: AtomicU64 = AtomicU64::new(0);

/// The name of the message that we send ourselves, and how many of them arrived.
const SELF_TEST: &CStr = c"HLX-SELF-TEST";
static SELF_TESTS: AtomicU64 = AtomicU64::new(0);

/// The number of warnings and errors that the validation layer has reported to this process.
/// The layer is on when the environment variable `HLX_VALIDATION` is `1`; its messages go to the
/// log and, if `HLX_VALIDATION_LOG` names a file, to the end of that file.
pub fn validation_messages() -> u64 {
    VALIDATION_MESSAGES.load(Ordering::Relaxed)
}

/// Returns the shared instance, or an error that says why there is none (no loader, no layer).
pub(super) fn shared() -> Result<Arc<Instance>, CoreError> {
    let mut slot = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = match &mut *slot {
        Some(shared) => shared,
        None => slot.insert(create()?),
    };
    Ok(Arc::clone(&shared.instance))
}

/// Whether the system has Vulkan's loader.
pub(crate) fn has_loader() -> bool {
    VulkanLibrary::new().is_ok()
}

/// Loads the system's loader, as vulkano does by itself, so that its devices have bf16 where a driver has it.
fn library() -> Result<Arc<VulkanLibrary>, LoadingError> {
    const PATH: Option<&str> = match () {
        () if cfg!(windows) => Some("vulkan-1.dll"),
        () if cfg!(all(
            unix,
            not(target_vendor = "apple"),
            not(target_os = "android")
        )) =>
        {
            Some("libvulkan.so.1")
        }
        () => None,
    };
    match PATH {
        Some(path) => {
            // SAFETY: the system's Vulkan loader.
            let loader = unsafe { DynamicLibraryLoader::new(path) }?;
            VulkanLibrary::with_loader(WithBfloat16(loader))
        }
        None => VulkanLibrary::new(),
    }
}

fn vulkan_error(during: &str, reason: impl ToString) -> CoreError {
    CoreError::Vulkan {
        during: during.to_owned(),
        reason: reason.to_string(),
    }
}

/// What an error says of itself, which prints only that it is one.
fn reason(error: &Validated<VulkanError>) -> String {
    match error {
        Validated::Error(error) => error.to_string(),
        Validated::ValidationError(error) => error.to_string(),
    }
}

fn create() -> Result<Shared, CoreError> {
    let library = library().map_err(|error| vulkan_error("load Vulkan", error))?;
    let validate = environment::text("HLX_VALIDATION")?.is_some_and(|value| value == "1");
    let mut info = InstanceCreateInfo {
        flags: InstanceCreateFlags::ENUMERATE_PORTABILITY,
        application_name: Some("HLX".to_owned()),
        max_api_version: Some(Version::V1_3),
        ..InstanceCreateInfo::default()
    };
    if library.supported_extensions().khr_portability_enumeration {
        info.enabled_extensions.khr_portability_enumeration = true;
    } else {
        info.flags = InstanceCreateFlags::empty();
    }
    if validate {
        add_validation(&library, &mut info)?;
    }
    let instance = Instance::new(library, info)
        .map_err(|error| vulkan_error("create the Vulkan instance", reason(&error)))?;
    let messenger = validate.then(|| listen(&instance)).transpose()?;
    Ok(Shared {
        instance,
        _messenger: messenger,
    })
}

/// Receives the layer's messages, and proves with a message of our own that they arrive.
fn listen(instance: &Arc<Instance>) -> Result<DebugUtilsMessenger, CoreError> {
    let during = "listen to the validation layer";
    let messenger = DebugUtilsMessenger::new(Arc::clone(instance), messenger_info())
        .map_err(|error| vulkan_error(during, reason(&error)))?;
    let data = ash::vk::DebugUtilsMessengerCallbackDataEXT::default()
        .message_id_name(SELF_TEST)
        .message(SELF_TEST);
    // SAFETY: the instance has the extension, and the structure lives through the call.
    unsafe {
        (instance
            .fns()
            .ext_debug_utils
            .submit_debug_utils_message_ext)(
            instance.handle(),
            ash::vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
            ash::vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION,
            &data,
        );
    }
    if SELF_TESTS.load(Ordering::Relaxed) == 0 {
        return Err(vulkan_error(during, "its messages do not arrive"));
    }
    Ok(messenger)
}

/// Warnings and errors of validation, to [`report`].
fn messenger_info() -> DebugUtilsMessengerCreateInfo {
    // SAFETY: the callback makes no call to Vulkan.
    let callback = unsafe {
        DebugUtilsMessengerCallback::new(|_severity, _kind, data| {
            report(data.message_id_name.unwrap_or("unnamed"), data.message);
        })
    };
    DebugUtilsMessengerCreateInfo {
        message_severity: DebugUtilsMessageSeverity::ERROR | DebugUtilsMessageSeverity::WARNING,
        message_type: DebugUtilsMessageType::VALIDATION | DebugUtilsMessageType::PERFORMANCE,
        ..DebugUtilsMessengerCreateInfo::user_callback(callback)
    }
}

/// Turns on the Khronos layer with synchronization validation.
fn add_validation(
    library: &Arc<VulkanLibrary>,
    info: &mut InstanceCreateInfo,
) -> Result<(), CoreError> {
    let layers = library
        .layer_properties()
        .map_err(|error| vulkan_error("list Vulkan layers", error))?
        .any(|layer| layer.name() == VALIDATION_LAYER);
    if !layers {
        let reason = format!("HLX_VALIDATION=1, but {VALIDATION_LAYER} is not installed");
        return Err(vulkan_error("create the Vulkan instance", reason));
    }
    info.enabled_layers = vec![VALIDATION_LAYER.to_owned()];
    let layer_extensions = library
        .supported_extensions_with_layers([VALIDATION_LAYER])
        .unwrap_or_else(|_| InstanceExtensions::empty());
    info.enabled_extensions.ext_debug_utils = true;
    if layer_extensions.ext_validation_features {
        info.enabled_extensions.ext_validation_features = true;
        info.enabled_validation_features = vec![ValidationFeatureEnable::SynchronizationValidation];
    }
    // This messenger receives only messages sent while the instance is made and destroyed.
    info.debug_utils_messengers = vec![messenger_info()];
    Ok(())
}

/// Whether a message only says that the layer is older than the driver: vulkano queries a driver for
/// the properties of every extension it lists, and a layer does not know those made after it.
/// Seen with layer 1.3.239 and NVIDIA's driver 580; nothing of HLX is in such a chain.
fn is_older_layer(id: &str, message: &str) -> bool {
    id == "VUID-VkPhysicalDeviceProperties2-pNext-pNext"
        && message.contains("unknown VkStructureType")
}

/// Whether a message only says that a function of instances was asked of a device: vulkano looks for every function of an
/// extension there, and calls none that it has not found. Seen with layer 1.4.309.
fn is_lookup(id: &str) -> bool {
    id == "WARNING-vkGetDeviceProcAddr-device"
}

/// Counts a message and writes it to the log and to `HLX_VALIDATION_LOG`.
fn report(id: &str, message: &str) {
    if id.as_bytes() == SELF_TEST.to_bytes() {
        SELF_TESTS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if is_older_layer(id, message) {
        tracing::debug!("Vulkan validation: the layer is older than the driver: {message}");
        return;
    }
    if is_lookup(id) {
        tracing::debug!("Vulkan validation: {id}: {message}");
        return;
    }
    VALIDATION_MESSAGES.fetch_add(1, Ordering::Relaxed);
    tracing::error!("Vulkan validation: {id}: {message}");
    let Some(path) = std::env::var_os("HLX_VALIDATION_LOG") else {
        return;
    };
    let line = format!("{id}: {}\n", message.replace('\n', " "));
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        tracing::error!("HLX_VALIDATION_LOG: {error}");
    }
}
