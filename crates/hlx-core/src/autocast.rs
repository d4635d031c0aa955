//! Scopes of a thread in which products are computed with operands of 16 bits, whatever handle of a device they are given.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::arithmetic::Half;

thread_local! {
    static HERE: Cell<Autocast> = const { Cell::new(Autocast::OFF) };
}

/// What products of a thread are computed in, for each kind of device: in `fast` with operands of a type, or in the arithmetic of
/// the device's handle. PyTorch's autocast. It changes no handle and no type of a tensor: a value of the thread, read where the
/// operands of a product are made ([`crate::Device::product_arithmetic`]).
///
/// ```
/// # use hlx_core::{Arithmetic, Autocast, Device, Half};
/// let device = Device::open("cpu")?;
/// let scope = Autocast::to(Half::Bf16).enter();
/// assert_eq!(device.product_arithmetic(), Arithmetic::Fast(Half::Bf16));
/// assert_eq!(device.arithmetic(), Arithmetic::Portable);
/// drop(scope);
/// assert_eq!(device.product_arithmetic(), Arithmetic::Portable);
/// # Ok::<(), hlx_core::CoreError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Autocast {
    /// The type of operands on the CPU device.
    pub cpu: Option<Half>,
    /// That on Vulkan devices.
    pub vulkan: Option<Half>,
}

impl Autocast {
    /// Products are computed in the arithmetic of their device's handle.
    pub const OFF: Self = Self {
        cpu: None,
        vulkan: None,
    };

    /// Operands of this type on every device.
    pub const fn to(half: Half) -> Self {
        Self {
            cpu: Some(half),
            vulkan: Some(half),
        }
    }

    /// That of this thread.
    pub fn here() -> Self {
        HERE.get()
    }

    /// Sets that of this thread from now on, and returns the one before. For languages without scopes; in Rust
    /// [`Autocast::enter`] restores what was before.
    pub fn set(self) -> Self {
        HERE.replace(self)
    }

    /// Sets that of this thread until what is returned is dropped. Scopes end in the reverse order in which they began.
    #[must_use = "the scope ends where it is dropped"]
    pub fn enter(self) -> AutocastScope {
        AutocastScope {
            before: self.set(),
            of_thread: PhantomData,
        }
    }
}

/// A scope of [`Autocast::enter`], which ends where it is dropped.
#[derive(Debug)]
pub struct AutocastScope {
    before: Autocast,
    /// It ends on the thread on which it began.
    of_thread: PhantomData<*const ()>,
}

impl Drop for AutocastScope {
    fn drop(&mut self) {
        self.before.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_nested_and_a_threads_own() {
        let both = Autocast::to(Half::Bf16);
        let outer = both.enter();
        {
            let _inner = Autocast::OFF.enter();
            assert_eq!(Autocast::here(), Autocast::OFF);
        }
        assert_eq!(Autocast::here(), both);
        let other = std::thread::spawn(Autocast::here).join();
        assert_eq!(other.ok(), Some(Autocast::OFF));
        let panicked = std::panic::catch_unwind(|| {
            let _scope = Autocast::to(Half::F16).enter();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert_eq!(Autocast::here(), both);
        drop(outer);
        assert_eq!(Autocast::here(), Autocast::OFF);
    }
}
