//! Hooks on gradients: functions that see, and may replace, a tensor's gradient in every backward pass.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::error::AutogradError;
use crate::{Result, Tensor};

/// What a hook does: `None` leaves the gradient as it is.
type HookFn = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;

/// Hooks with their numbers.
type List = Mutex<Vec<(u64, HookFn)>>;

/// The hooks of one tensor, in the order in which they were registered; no memory while there is none.
#[derive(Default)]
pub(crate) struct Hooks(OnceLock<Arc<List>>);

impl Hooks {
    fn list(&self) -> MutexGuard<'_, Vec<(u64, HookFn)>> {
        locked(self.0.get_or_init(Arc::default))
    }

    pub fn is_empty(&self) -> bool {
        self.0.get().is_none_or(|list| locked(list).is_empty())
    }

    /// The gradient after all hooks, each of which gets what the one before it left.
    ///
    /// # Errors
    /// What a hook returns; [`AutogradError`] if it replaces the gradient by one of another shape, type
    /// or device.
    pub fn apply(&self, gradient: Tensor) -> Result<Tensor> {
        const OP: &str = "register_hook";
        // Not held while hooks run: one may remove itself.
        let hooks: Vec<HookFn> = self.list().iter().map(|(_, hook)| hook.clone()).collect();
        let mut gradient = gradient;
        for hook in hooks {
            let Some(other) = hook(&gradient)? else {
                continue;
            };
            gradient.same_device(OP, [("the hook's gradient", Some(&other))])?;
            other.expect_type(OP, "the hook's gradient", gradient.dtype())?;
            if other.shape() != gradient.shape() {
                let expected = format!("{:?}", gradient.shape());
                return Err(other.shape_error(OP, "the hook's gradient", expected));
            }
            gradient = other.as_new();
        }
        Ok(gradient)
    }
}

fn locked(list: &List) -> MutexGuard<'_, Vec<(u64, HookFn)>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registered hook, by which it can be removed. It stays registered when this handle is dropped.
#[derive(Clone)]
pub struct Hook {
    id: u64,
    of: Weak<List>,
}

impl Hook {
    /// Removes the hook: later backward passes do not call it. Does nothing the second time.
    pub fn remove(&self) {
        if let Some(hooks) = self.of.upgrade() {
            locked(&hooks).retain(|(id, _)| *id != self.id);
        }
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hook({})", self.id)
    }
}

impl Tensor {
    /// Registers a function of this tensor's gradient, as `torch.Tensor.register_hook`: every backward
    /// pass calls it with the whole gradient that the pass has for this tensor, and goes on with the
    /// tensor that it returns, if any. Hooks of one tensor run in the order of their registration.
    ///
    /// A leaf's hooks run at the end of the pass, before its gradient is added to what the leaf holds. A
    /// pass over a part of a shard refuses a leaf with hooks ([`AutogradError::DerivedParameter`]): the
    /// whole gradient is known only after the last part. In a pass that is recorded on the tape the
    /// hook's operations are recorded too; else they run within [`no_grad`](crate::no_grad).
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for a tensor that requires no gradient.
    ///
    /// ```
    /// # use hlx_autograd::{DType, Tensor};
    /// # let device = hlx_core::Device::open("cpu")?;
    /// let x = Tensor::ones(&device, &[2], DType::F32)?.with_gradient();
    /// let hook = x.register_hook(|gradient| Ok(Some(gradient.mul(10.0)?)))?;
    /// x.mul(3.0)?.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [30.0, 30.0]);
    /// hook.remove();
    /// # Ok::<(), hlx_autograd::AutogradError>(())
    /// ```
    pub fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<Hook> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let input = self.input();
        let Some(hooks) = input.hooks() else {
            return Err(AutogradError::Argument {
                op: "register_hook",
                reason: "the tensor requires no gradient".to_owned(),
            });
        };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        hooks.list().push((id, Arc::new(hook)));
        let of = hooks.0.get().map(Arc::downgrade).unwrap_or_default();
        Ok(Hook { id, of })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::ops::test_support::{input, message};
    use crate::{BackwardPlan, DType};

    #[test]
    fn a_hook_sees_the_whole_gradient_and_may_replace_it() -> Result<()> {
        let x = input(1, &[3]).with_gradient();
        let y = x.mul(2.0)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&seen);
        y.register_hook(move |dy| {
            copy.lock().expect("unpoisoned").push(dy.to_vec::<f32>()?);
            Ok(None)
        })?;
        let hook = y.register_hook(|dy| Ok(Some(dy.mul(10.0)?)))?;
        // Two uses: the hook runs once, with their sum.
        y.add(&y)?.sum()?.backward()?;
        assert_eq!(*seen.lock().expect("unpoisoned"), [[2.0; 3]]);
        assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [40.0; 3]);
        hook.remove();
        hook.remove();
        Ok(())
    }

    #[test]
    fn hooks_of_a_leaf_run_once_a_pass_in_their_order() -> Result<()> {
        let x = input(1, &[2, 3]).with_samples(0)?;
        for shards in [1, 2] {
            let w = input(2, &[3]).with_gradient();
            let plan = BackwardPlan {
                shards,
                ..BackwardPlan::default()
            };
            w.register_hook(|dw| Ok(Some(dw.add(1.0)?)))?;
            let twice = w.register_hook(|dw| Ok(Some(dw.mul(2.0)?)))?;
            let loss = || x.mul(&w)?.add(x.mul(&w)?)?.sum();
            loss()?.backward_with(&plan)?;
            let hooked = w.grad().expect("a gradient").to_vec::<f32>()?;
            twice.remove();
            w.zero_grad();
            loss()?.backward_with(&plan)?;
            let once = w.grad().expect("a gradient").to_vec::<f32>()?;
            for (one, two) in once.iter().zip(&hooked) {
                assert_eq!(2.0 * one, *two);
            }
        }
        Ok(())
    }

    #[test]
    fn a_hook_of_a_recorded_pass_is_differentiated_too() -> Result<()> {
        let x = Tensor::full(input(1, &[1]).device(), &[], 3.0, DType::F32)?.with_gradient();
        let y = x.mul(&x)?;
        let (square, own) = (x.clone(), x.clone());
        // dx = 2 x, replaced by x dx = 2 x^2, whose derivative is 4 x.
        let gradient = {
            let _hook = x.register_hook(move |dx| Ok(Some(dx.mul(&square)?)))?;
            let mut all = y.gradients(&[&x], true)?;
            all.remove(0).expect("x is used")
        };
        assert_eq!(gradient.item::<f32>()?, 18.0);
        // The hook is called again, with the gradient of 2 x^2.
        let second = gradient.gradients(&[&own], false)?.remove(0);
        assert_eq!(second.expect("x is used").item::<f32>()?, 36.0);
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() -> Result<()> {
        let x = input(1, &[3]);
        let text = message(x.register_hook(|_| Ok(None)).map(|_| x.clone()));
        assert_eq!(text, "register_hook: the tensor requires no gradient");
        let x = x.with_gradient();
        x.register_hook(|dx| Ok(Some(dx.narrow(0, 0, 2)?)))?;
        let error = x
            .mul(2.0)?
            .sum()?
            .backward()
            .expect_err("a shorter gradient");
        assert_eq!(
            error.to_string(),
            "register_hook: the hook's gradient has shape [2], expected [3]"
        );
        let part = BackwardPlan {
            accumulate: true,
            whole_batch: false,
            shards: 1,
        };
        let (x, w) = (
            input(1, &[2, 3]).with_samples(0)?,
            input(2, &[3]).with_gradient(),
        );
        w.register_hook(|_| Ok(None))?;
        let error = x.mul(&w)?.sum()?.backward_with(&part).expect_err("a part");
        let text = error.to_string();
        assert!(text.contains("use passes of whole shards"), "{text}");
        Ok(())
    }
}
