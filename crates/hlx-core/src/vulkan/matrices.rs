//! Which devices list cooperative matrices of 8-bit integers and of 16-bit floats.

use ash::vk;
use vulkano::VulkanObject;
use vulkano::device::physical::PhysicalDevice;
use vulkano::device::{DeviceExtensions, DeviceFeatures};

use super::bfloat16;
use crate::arithmetic::{Half, MatrixShape};

/// What the elements of matrices are, and what shaders' tiles are made of.
struct Kind {
    operands: vk::ComponentTypeKHR,
    sums: vk::ComponentTypeKHR,
    /// What the rows, columns and terms of a matrix divide.
    parts: [u32; 3],
    /// Columns and terms of a matrix in the units that shaders load.
    unit: u32,
}

/// Bytes, in words of four.
const BYTES: Kind = Kind {
    operands: vk::ComponentTypeKHR::SINT8,
    sums: vk::ComponentTypeKHR::SINT32,
    parts: [16, 64, 64],
    unit: 4,
};

/// Halves, in units of eight.
const fn halves(operands: vk::ComponentTypeKHR) -> Kind {
    Kind {
        operands,
        sums: vk::ComponentTypeKHR::FLOAT32,
        parts: [16, 16, 32],
        unit: 8,
    }
}

/// The products of signed bytes into sums of 32 bits that a device lists, by subgroups, without saturation, and of
/// sizes that the shaders' tiles are made of; the largest first, none of a device that lacks what the shaders need
/// besides.
pub(super) fn listed(physical: &PhysicalDevice) -> Vec<MatrixShape> {
    match has_matrices(physical) && physical.supported_features().shader_int8 {
        true => of_kind(physical, &BYTES),
        false => Vec::new(),
    }
}

/// Likewise the products of 16-bit floats into sums of f32.
pub(super) fn listed_halves(physical: &PhysicalDevice, half: Half) -> Vec<MatrixShape> {
    let (has_type, component) = match half {
        Half::F16 => (
            physical.supported_features().shader_float16,
            vk::ComponentTypeKHR::FLOAT16,
        ),
        Half::Bf16 => (
            bfloat16::is_supported(physical.handle()),
            bfloat16::COMPONENT,
        ),
    };
    match has_matrices(physical) && has_type {
        true => of_kind(physical, &halves(component)),
        false => Vec::new(),
    }
}

/// Whether a device has what shaders with cooperative matrices need, whatever their elements.
fn has_matrices(physical: &PhysicalDevice) -> bool {
    let features = physical.supported_features();
    physical.supported_extensions().khr_cooperative_matrix
        && features.cooperative_matrix
        && features.vulkan_memory_model
        && features.vulkan_memory_model_device_scope
}

fn of_kind(physical: &PhysicalDevice, kind: &Kind) -> Vec<MatrixShape> {
    let subgroup = physical.properties().subgroup_size.unwrap_or(0);
    if ![8, 16, 32, 64].contains(&subgroup) {
        return Vec::new();
    }
    let ours = |shape: &vk::CooperativeMatrixPropertiesKHR<'_>| kind.shape(shape, subgroup);
    let mut shapes: Vec<_> = shapes(physical).iter().filter_map(ours).collect();
    shapes.sort_by_key(|shape| std::cmp::Reverse(shape.rows * shape.columns * shape.terms));
    shapes
}

/// The extension and features to enable for them.
pub(super) fn enable(
    physical: &PhysicalDevice,
    extensions: &mut DeviceExtensions,
    features: &mut DeviceFeatures,
) {
    if !has_matrices(physical) {
        return;
    }
    extensions.khr_cooperative_matrix = true;
    features.cooperative_matrix = true;
    features.vulkan_memory_model = true;
    // For the atomics of every other shader, once the memory model is on.
    features.vulkan_memory_model_device_scope = true;
    features.shader_int8 = physical.supported_features().shader_int8;
    features.shader_float16 = physical.supported_features().shader_float16;
}

impl Kind {
    fn shape(
        &self,
        listed: &vk::CooperativeMatrixPropertiesKHR<'_>,
        subgroup: u32,
    ) -> Option<MatrixShape> {
        let sizes = [listed.m_size, listed.n_size, listed.k_size];
        let mut parts = sizes.iter().zip(self.parts);
        let ours = [listed.a_type, listed.b_type] == [self.operands; 2]
            && [listed.c_type, listed.result_type] == [self.sums; 2]
            && listed.saturating_accumulation == vk::FALSE
            && listed.scope == vk::ScopeKHR::SUBGROUP
            && parts.all(|(&size, whole)| size != 0 && whole.is_multiple_of(size))
            && sizes[1..].iter().all(|size| size.is_multiple_of(self.unit));
        ours.then_some(MatrixShape {
            rows: listed.m_size,
            columns: listed.n_size,
            terms: listed.k_size,
            subgroup,
        })
    }
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
