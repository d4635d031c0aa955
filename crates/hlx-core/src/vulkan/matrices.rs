//! Which devices list cooperative matrices of 8-bit integers.

use ash::vk;
use vulkano::VulkanObject;
use vulkano::device::physical::PhysicalDevice;
use vulkano::device::{DeviceExtensions, DeviceFeatures};

/// Threads of a subgroup that the shaders are written for.
const SUBGROUP: u32 = 32;

/// Whether a device lists products of signed bytes, 16 x 16 x 32, by subgroups of 32 and without saturation, and
/// supports what the shaders need besides.
pub(super) fn listed(physical: &PhysicalDevice) -> bool {
    let features = physical.supported_features();
    let supported = physical.supported_extensions().khr_cooperative_matrix
        && features.cooperative_matrix
        && features.vulkan_memory_model
        && features.shader_int8
        && physical.properties().subgroup_size == Some(SUBGROUP);
    supported && shapes(physical).iter().any(is_ours)
}

/// The extension and features to enable for them.
pub(super) fn enable(extensions: &mut DeviceExtensions, features: &mut DeviceFeatures) {
    extensions.khr_cooperative_matrix = true;
    features.cooperative_matrix = true;
    features.vulkan_memory_model = true;
    features.shader_int8 = true;
}

fn is_ours(shape: &vk::CooperativeMatrixPropertiesKHR<'_>) -> bool {
    let (bytes, sums) = (vk::ComponentTypeKHR::SINT8, vk::ComponentTypeKHR::SINT32);
    [shape.m_size, shape.n_size, shape.k_size] == [16, 16, 32]
        && [shape.a_type, shape.b_type] == [bytes; 2]
        && [shape.c_type, shape.result_type] == [sums; 2]
        && shape.saturating_accumulation == vk::FALSE
        && shape.scope == vk::ScopeKHR::SUBGROUP
}

/// Every shape that the driver lists.
fn shapes(physical: &PhysicalDevice) -> Vec<vk::CooperativeMatrixPropertiesKHR<'static>> {
    let fns = &physical.instance().fns().khr_cooperative_matrix;
    let query = fns.get_physical_device_cooperative_matrix_properties_khr;
    let mut count = 0;
    // SAFETY: the extension is supported; without a list the call writes their number.
    let counted = unsafe { query(physical.handle(), &mut count, std::ptr::null_mut()) };
    let mut shapes = vec![vk::CooperativeMatrixPropertiesKHR::default(); count as usize];
    // SAFETY: the list has room for as many as the driver has counted.
    let listed = unsafe { query(physical.handle(), &mut count, shapes.as_mut_ptr()) };
    match [counted, listed] {
        [vk::Result::SUCCESS, vk::Result::SUCCESS] => shapes.truncate(count as usize),
        _ => shapes.clear(),
    }
    shapes
}
