//! Errors after which a device computes nothing any more.

use hlx_autograd::AutogradError;
use hlx_core::CoreError;
use hlx_kernels::KernelError;
use hlx_nn::NnError;

/// Whether an error says that its device is lost, as opposed to what was to be computed being too large or wrong.
pub(super) fn is_lost(error: &anyhow::Error) -> bool {
    let core = error.downcast_ref::<CoreError>();
    let core = core.or_else(|| match error.downcast_ref::<NnError>()? {
        NnError::Core(error) => Some(error),
        NnError::Kernel(error) => of_kernel(error),
        NnError::Autograd(error) => of_tape(error),
        _ => None,
    });
    let core = core.or_else(|| of_tape(error.downcast_ref()?));
    let core = core.or_else(|| of_kernel(error.downcast_ref()?));
    matches!(
        core,
        Some(CoreError::DeviceLost { .. } | CoreError::Vulkan { .. })
    )
}

fn of_tape(error: &AutogradError) -> Option<&CoreError> {
    match error {
        AutogradError::Core(error) => Some(error),
        AutogradError::Kernel(error) => of_kernel(error),
        _ => None,
    }
}

fn of_kernel(error: &KernelError) -> Option<&CoreError> {
    match error {
        KernelError::Core(error) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Error;

    use super::*;

    #[test]
    fn a_device_is_lost_by_the_errors_of_all_layers() {
        let lost = || CoreError::DeviceLost {
            device: "one".to_owned(),
            during: "a step".to_owned(),
            hint: String::new(),
        };
        let kernel = || KernelError::Core(lost());
        let tape = || AutogradError::Kernel(kernel());
        for error in [
            Error::from(lost()),
            Error::from(kernel()),
            Error::from(tape()),
            Error::from(NnError::Autograd(tape())),
            Error::from(NnError::Core(lost())).context("a step"),
        ] {
            assert!(is_lost(&error), "{error:#}");
        }
        let full = || CoreError::OutOfMemory {
            device: "one".to_owned(),
            requested: 2,
            in_use: 1,
            budget: 1,
        };
        for error in [
            Error::from(full()),
            Error::from(NnError::Core(full())),
            anyhow::anyhow!("another"),
        ] {
            assert!(!is_lost(&error), "{error:#}");
        }
    }
}
