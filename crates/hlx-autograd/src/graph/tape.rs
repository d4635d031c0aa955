//! The tape: one node per operation, numbered in the order of the forward pass.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};

use hlx_core::{Autocast, Device, next_moment};

use crate::Result;
use crate::error::AutogradError;
use crate::graph::backward::{Backward, Gradient};
use crate::graph::hook::Hooks;
use crate::graph::tensor::Tensor;

/// How an operation differentiates itself with kernels: it takes the gradient of its output and
/// passes the gradients of its inputs to the pass. It runs once, and what it captured is freed after.
pub(crate) type BackwardFn = Box<dyn FnOnce(&mut Backward<'_>, Gradient) -> Result<()> + Send>;

/// How an operation differentiates itself with operations, which a pass that is recorded puts on the
/// tape: it takes the gradient of its output and, where it saved it, the output.
pub(crate) type TensorRule =
    Arc<dyn Fn(&mut Backward<'_>, &Tensor, Option<&Tensor>) -> Result<()> + Send + Sync>;

/// How an operation differentiates itself.
pub(crate) enum Rule {
    Once(BackwardFn),
    Tensors {
        rule: TensorRule,
        /// The output's values, for rules that read them; without its place on the tape, by which
        /// the node would hold itself.
        output: Option<Tensor>,
    },
}

impl Rule {
    /// A rule that does not read the output.
    pub(crate) fn of(
        rule: impl Fn(&mut Backward<'_>, &Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::Tensors {
            rule: Arc::new(move |pass, dy, _| rule(pass, dy)),
            output: None,
        }
    }
}

/// One operation on the tape.
pub(crate) struct Node {
    /// The moment at which the operation was done, which increases in the order of the forward pass:
    /// consumers have larger numbers than producers.
    pub id: u64,
    pub op: &'static str,
    /// Where the output is.
    pub device: Device,
    /// That of the operation, which its derivative is computed in.
    pub autocast: Autocast,
    /// The output's extents.
    pub shape: Vec<usize>,
    /// What sees the output's gradient when it is complete.
    pub hooks: Hooks,
    /// Taken by the backward pass.
    derivative: Mutex<Option<Derivative>>,
}

/// How to differentiate an operation, and the operations that made its inputs.
pub(crate) struct Derivative {
    pub rule: Rule,
    /// Every node that the closure may own by what it captured, so that dropping a node can drop
    /// these one by one.
    producers: Vec<Arc<Node>>,
}

impl Node {
    pub(crate) fn new(
        op: &'static str,
        device: Device,
        shape: &[usize],
        producers: Vec<Arc<Node>>,
        rule: Rule,
    ) -> Self {
        let derivative = Derivative { rule, producers };
        Self {
            id: next_moment(),
            op,
            device,
            autocast: Autocast::here(),
            shape: shape.to_vec(),
            hooks: Hooks::default(),
            derivative: Mutex::new(Some(derivative)),
        }
    }

    /// Takes the closure out, with the tensors that it saved.
    pub(crate) fn take(&self) -> Result<Derivative> {
        let mut derivative = self
            .derivative
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        derivative
            .take()
            .ok_or(AutogradError::Freed { op: self.op })
    }

    /// The operations of the derivative, which stay for another pass, and the saved output.
    ///
    /// # Errors
    /// [`AutogradError::NoSecondDerivative`] if the derivative is a kernel, [`AutogradError::Freed`].
    pub(crate) fn rule(&self) -> Result<(TensorRule, Option<Tensor>)> {
        let derivative = self
            .derivative
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match derivative.as_ref().map(|derivative| &derivative.rule) {
            Some(Rule::Tensors { rule, output }) => Ok((Arc::clone(rule), output.clone())),
            Some(Rule::Once(_)) => Err(AutogradError::NoSecondDerivative { op: self.op }),
            None => Err(AutogradError::Freed { op: self.op }),
        }
    }

    /// Drops the closure and what it saved; returns the producers, which are still alive.
    fn release(&mut self) -> Vec<Arc<Node>> {
        let derivative = self
            .derivative
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        derivative
            .take()
            .map_or(Vec::new(), |derivative| derivative.producers)
    }
}

impl Drop for Node {
    /// Frees the operations that only this one held, in a loop: a chain of them may be longer than
    /// the stack is deep.
    fn drop(&mut self) {
        let mut unreached = self.release();
        while let Some(node) = unreached.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                unreached.append(&mut node.release());
            }
        }
    }
}

/// What becomes of the operations on a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taping {
    /// They go on the tape.
    On,
    /// They do not.
    Off,
    /// They do not, and the tensors that they read and that require a gradient are noted.
    Noted,
}

thread_local! {
    static TAPING: Cell<Taping> = const { Cell::new(Taping::On) };
    static NOTED: RefCell<Vec<Tensor>> = const { RefCell::new(Vec::new()) };
}

/// Whether operations on this thread go on the tape.
#[doc = example!("assert!(gradients_enabled() && !no_grad(gradients_enabled));")]
pub fn gradients_enabled() -> bool {
    TAPING.get() == Taping::On
}

/// Whether an operation that reads these tensors has to say how it is differentiated: one of them requires a gradient,
/// and this thread is not within [`no_grad`].
pub(crate) fn wants_gradient<'a>(read: &mut impl Iterator<Item = &'a Tensor>) -> bool {
    TAPING.get() != Taping::Off && read.any(Tensor::requires_grad)
}

/// Runs a closure without the tape, and returns the tensors from outside that its operations read and that
/// require a gradient, in the order of their first use.
pub(crate) fn noting<R>(body: impl FnOnce() -> R) -> (R, Vec<Tensor>) {
    let before = NOTED.take();
    let result = with(Taping::Noted, body);
    (result, NOTED.replace(before))
}

/// Notes that an operation reads a tensor, where [`noting`] wants to know.
pub(crate) fn note(tensor: &Tensor) {
    if TAPING.get() == Taping::Noted && tensor.requires_grad() {
        NOTED.with_borrow_mut(|noted| {
            if !noted.iter().any(|one| one.is_same(tensor)) {
                noted.push(tensor.clone());
            }
        });
    }
}

/// Runs a closure with the tape, within [`no_grad`] too, as `torch.enable_grad`.
#[doc = example!(
    x: "let x = x.with_gradient();",
    "assert!(no_grad(|| enable_grad(|| x.square()))?.requires_grad());"
)]
pub fn enable_grad<R>(body: impl FnOnce() -> R) -> R {
    with(Taping::On, body)
}

/// Runs a closure without the tape: its results require no gradient and save nothing.
///
/// The setting is this thread's and is restored when the closure ends, by a panic too.
#[doc = example!(
    x: "let x = x.with_gradient();",
    "assert!(!no_grad(|| x.square())?.requires_grad());"
)]
pub fn no_grad<R>(body: impl FnOnce() -> R) -> R {
    with(Taping::Off, body)
}

/// Sets whether operations on this thread go on the tape from now on, and returns whether they did, as
/// `torch.set_grad_enabled`. For languages without closures; in Rust [`no_grad`] and [`enable_grad`]
/// restore what was before.
#[doc = example!(
    "let before = set_gradients_enabled(false);",
    "assert!(before && !gradients_enabled());",
    "set_gradients_enabled(before);"
)]
pub fn set_gradients_enabled(enabled: bool) -> bool {
    let taping = match enabled {
        true => Taping::On,
        false => Taping::Off,
    };
    TAPING.replace(taping) == Taping::On
}

fn with<R>(taping: Taping, body: impl FnOnce() -> R) -> R {
    struct Restore(Taping);
    impl Drop for Restore {
        fn drop(&mut self) {
            TAPING.set(self.0);
        }
    }
    let _restore = Restore(TAPING.replace(taping));
    body()
}
