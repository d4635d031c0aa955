//! Which devices list cooperative matrices of 8-bit integers.

use ash::vk;
use vulkano::VulkanObject;
use vulkano::device::physical::PhysicalDevice;
use vulkano::device::{DeviceExtensions, DeviceFeatures};

use crate::arithmetic::MatrixShape;

/// The products of signed bytes into sums of 32 bits that a device lists, by subgroups, without saturation, and of
/// sizes that the shaders' tiles are made of; the largest first, none of a device that lacks what the shaders need
/// besides.
pub(super) fn listed(physical: &PhysicalDevice) -> Vec<MatrixShape> {
    let features = physical.supported_features();
    let supported = physical.supported_extensions().khr_cooperative_matrix
        && features.cooperative_matrix
        && features.vulkan_memory_model
        && features.vulkan_memory_model_device_scope
        && features.shader_int8;
    let subgroup = physical.properties().subgroup_size.unwrap_or(0);
    if !supported || ![8, 16, 32, 64].contains(&subgroup) {
        return Vec::new();
    }
    let ours = |shape: &vk::CooperativeMatrixPropertiesKHR<'_>| is_ours(shape, subgroup);
    let mut shapes: Vec<_> = shapes(physical).iter().filter_map(ours).collect();
    shapes.sort_by_key(|shape| std::cmp::Reverse(shape.rows * shape.columns * shape.terms));
    shapes
}

/// The extension and features to enable for them.
pub(super) fn enable(extensions: &mut DeviceExtensions, features: &mut DeviceFeatures) {
    extensions.khr_cooperative_matrix = true;
    features.cooperative_matrix = true;
    features.vulkan_memory_model = true;
    // For the atomics of every other shader, once the memory model is on.
    features.vulkan_memory_model_device_scope = true;
    features.shader_int8 = true;
}

fn is_ours(listed: &vk::CooperativeMatrixPropertiesKHR<'_>, subgroup: u32) -> Option<MatrixShape> {
    let (bytes, sums) = (vk::ComponentTypeKHR::SINT8, vk::ComponentTypeKHR::SINT32);
    let divide = |size: u32, whole: u32| size != 0 && whole.is_multiple_of(size);
    let ours = [listed.a_type, listed.b_type] == [bytes; 2]
        && [listed.c_type, listed.result_type] == [sums; 2]
        && listed.saturating_accumulation == vk::FALSE
        && listed.scope == vk::ScopeKHR::SUBGROUP
        // Parts of 16 rows, 64 columns and 64 terms, in whole words.
        && divide(listed.m_size, 16)
        && divide(listed.n_size, 64)
        && divide(listed.k_size, 64)
        && [listed.n_size, listed.k_size].iter().all(|size| size.is_multiple_of(4));
    ours.then_some(MatrixShape {
        rows: listed.m_size,
        columns: listed.n_size,
        terms: listed.k_size,
        subgroup,
    })
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
