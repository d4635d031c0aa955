//! Checks a kernel against its shader, and against a device's limits.

use hlx_core::Device;
use hlx_store::Dtype;

use super::kernel::Bound;
use super::loaded::Loaded;
use super::spirv::{BindingInfo, ScalarKind};
use super::{ContractError, Kernel};

/// Specialization constants that HLX sets itself: how the device does arithmetic.
const OWN_CONSTANTS: std::ops::RangeInclusive<u32> = 1000..=1001;

/// Checks that a kernel declares what its shader declares.
pub(crate) fn check(kernel: &Kernel, shader: &Loaded) -> Result<(), ContractError> {
    check_constants(kernel, shader)?;
    check_push_constants(kernel, shader)?;
    check_bindings(kernel, shader)?;
    let wrong = |reason: String| ContractError::invalid(&kernel.name, reason);
    let size = shader
        .reflection
        .workgroup_size(&kernel.constants())
        .map_err(wrong)?;
    if size != kernel.workgroup_size {
        return Err(wrong(format!(
            "workgroup_size is {:?}, the shader's {size:?}",
            kernel.workgroup_size
        )));
    }
    Ok(())
}

pub(crate) fn check_constants(kernel: &Kernel, shader: &Loaded) -> Result<(), ContractError> {
    for constant in &kernel.specialization {
        let id = constant.id;
        let wrong = |reason: String| {
            let reason = format!("specialization constant {id}: {reason}");
            Err(ContractError::invalid(&kernel.name, reason))
        };
        if OWN_CONSTANTS.contains(&id) {
            return wrong("1000 and 1001 are set by HLX, for each device".to_owned());
        }
        let Some(declared) = shader.reflection.constants.get(&id) else {
            return wrong("the shader has none of this id".to_owned());
        };
        let (found, expected) = (constant.value.kind(), declared.kind);
        if found != expected {
            let (name, found, expected) = (&declared.name, found.name(), expected.name());
            return wrong(format!("`{name}` is {found}, the shader's is {expected}"));
        }
    }
    Ok(())
}

fn check_push_constants(kernel: &Kernel, shader: &Loaded) -> Result<(), ContractError> {
    let (given, declared) = (&kernel.push_constants, &shader.reflection.push_constants);
    let wrong = |reason: String| Err(ContractError::invalid(&kernel.name, reason));
    if given.len() != declared.len() {
        let (found, expected) = (given.len(), declared.len());
        return wrong(format!(
            "{found} words of push constants, the shader's block has {expected}"
        ));
    }
    for (place, (scalar, declared)) in given.iter().zip(declared).enumerate() {
        // The shader ignores padding; as zero, equal kernels have equal encodings.
        let expected = declared.unwrap_or(ScalarKind::U32);
        let padded = declared.is_some() || scalar.word() == 0;
        if scalar.kind() != expected || !padded {
            let (found, expected) = (scalar.kind().name(), expected.name());
            let padding = if declared.is_some() {
                ""
            } else {
                " 0 (padding)"
            };
            return wrong(format!(
                "word {place} of the push constants is {found}, the shader's is {expected}{padding}"
            ));
        }
    }
    Ok(())
}

fn check_bindings(kernel: &Kernel, shader: &Loaded) -> Result<(), ContractError> {
    let declared = &shader.reflection.bindings;
    let bound = kernel.bound();
    for info in declared.values() {
        if !bound.iter().any(|bound| bound.binding == info.binding) {
            return Err(ContractError::Binding {
                contract: kernel.name.clone(),
                binding: info.binding,
                name: info.name.clone(),
                reason: "the shader has it, the contract binds nothing there".to_owned(),
            });
        }
    }
    for (place, bound) in bound.iter().enumerate() {
        let wrong = |reason: String| Err(kernel.binding_error(bound, reason));
        let Some(info) = declared.get(&bound.binding) else {
            return wrong("the shader has no such binding".to_owned());
        };
        if bound.binding as usize != place {
            return wrong(format!("binding {place} is missing: they go 0, 1, 2, .."));
        }
        check_binding(kernel, bound, info)?;
    }
    Ok(())
}

fn check_binding(
    kernel: &Kernel,
    bound: &Bound<'_>,
    info: &BindingInfo,
) -> Result<(), ContractError> {
    let wrong = |reason: String| Err(kernel.binding_error(bound, reason));
    let expected = match bound.dtype {
        Dtype::F32 => ScalarKind::F32,
        Dtype::I32 => ScalarKind::I32,
        _ => ScalarKind::U32,
    };
    if !info.elements.contains(&expected) {
        let names: Vec<&str> = info.elements.iter().map(|kind| kind.name()).collect();
        let (found, name) = (bound.dtype, &info.name);
        return wrong(format!(
            "dtype {found}, the shader's `{name}` holds {}",
            names.join(", ")
        ));
    }
    let bytes = 4 * bound.n_elements().unwrap_or(0);
    if bytes < info.min_bytes {
        let (name, expected) = (&info.name, info.min_bytes);
        return wrong(format!(
            "{bytes} bytes, the shader's `{name}` has at least {expected}"
        ));
    }
    if bound.is_output && !info.writes {
        return wrong("it is an output, and the shader never stores to it".to_owned());
    }
    if !bound.is_output && info.writes {
        return wrong("it is an input, and the shader stores to it".to_owned());
    }
    Ok(())
}

/// Checks a kernel against the limits of a Vulkan device.
pub(crate) fn check_limits(
    device: &Device,
    kernel: &Kernel,
    shader: &Loaded,
) -> Result<(), ContractError> {
    let info = device.info();
    let wrong = |reason: String| {
        Err(ContractError::Device {
            contract: kernel.name.clone(),
            device: info.name.clone(),
            reason,
        })
    };
    let size = kernel.workgroup_size;
    let invocations = size
        .iter()
        .try_fold(1_u32, |n, &extent| n.checked_mul(extent));
    let most = info.max_workgroup_invocations;
    let fits = invocations.is_some_and(|n| (1..=most).contains(&n))
        && size
            .iter()
            .zip(info.max_workgroup_size)
            .all(|(&extent, most)| extent <= most);
    if !fits {
        let each = info.max_workgroup_size;
        return wrong(format!(
            "workgroups of {size:?}, at most {most} invocations and {each:?} each way"
        ));
    }
    let shared = shader.reflection.shared_bytes(&kernel.constants());
    let shared = shared.map_err(|reason| ContractError::invalid(&kernel.name, reason))?;
    if shared > u64::from(info.shared_memory_bytes) {
        let most = info.shared_memory_bytes;
        return wrong(format!("{shared} bytes of shared memory, at most {most}"));
    }
    let (push, most) = (
        4 * kernel.push_constants.len(),
        info.max_push_constant_bytes,
    );
    if push > most as usize {
        return wrong(format!("{push} bytes of push constants, at most {most}"));
    }
    for bound in kernel.bound() {
        let n = bound.n_elements().unwrap_or(u64::MAX);
        if n > info.max_binding_words {
            let most = info.max_binding_words;
            return wrong(format!(
                "{n} words at binding {} ({}), at most {most}",
                bound.binding, bound.name
            ));
        }
    }
    Ok(())
}
