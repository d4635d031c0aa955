//! Which devices have dot products of four bytes.

use vulkano::Version;
use vulkano::device::physical::PhysicalDevice;
use vulkano::device::{DeviceExtensions, DeviceFeatures};

/// A device's dot products of four signed bytes into sums of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DotProducts {
    /// They take fewer instructions than multiplications and additions.
    pub in_hardware: bool,
}

/// Those of a device that has them, by Vulkan 1.3 or the extension.
pub(super) fn of(physical: &PhysicalDevice) -> Option<DotProducts> {
    let listed = is_core(physical)
        || physical
            .supported_extensions()
            .khr_shader_integer_dot_product;
    let supported = listed && physical.supported_features().shader_integer_dot_product;
    let properties = physical.properties();
    let in_hardware = properties.integer_dot_product4x8_bit_packed_signed_accelerated;
    supported.then_some(DotProducts {
        in_hardware: in_hardware == Some(true),
    })
}

/// The extension, where it is one, and the feature to enable for them.
pub(super) fn enable(
    physical: &PhysicalDevice,
    extensions: &mut DeviceExtensions,
    features: &mut DeviceFeatures,
) {
    extensions.khr_shader_integer_dot_product = !is_core(physical);
    features.shader_integer_dot_product = true;
}

fn is_core(physical: &PhysicalDevice) -> bool {
    physical.api_version() >= Version::V1_3
}
