//! A tensor's place on the tape, without its values: what an operation saves of an input that its
//! derivative does not read.

use std::sync::{Arc, Mutex, MutexGuard};

use hlx_core::Buffer;

use crate::Result;
use crate::graph::hook::Hooks;
use crate::graph::tape::Node;
use crate::graph::tensor::Tensor;

/// Where an operation's input comes from, as far as gradients are concerned. It holds no values, so
/// a backward closure that captures it instead of a [`Tensor`](crate::Tensor) frees their memory.
#[derive(Clone)]
pub struct Input {
    place: Place,
    n_elements: usize,
}

#[derive(Clone)]
enum Place {
    /// No gradient flows into it.
    Constant,
    Leaf(Arc<Leaf>),
    Operation(Arc<Node>),
}

/// A tensor whose gradient is wanted, and that gradient.
pub(crate) struct Leaf {
    pub name: String,
    pub shape: Vec<usize>,
    /// What sees its gradient at the end of each pass.
    pub hooks: Hooks,
    /// For another use of a parameter: the parameter.
    pub first_use: Option<Arc<Leaf>>,
    slot: Mutex<Slot>,
}

/// Gives the buffer that a parameter's gradient is written into, when a backward pass first reaches
/// the parameter.
pub type GradientSource = Arc<dyn Fn() -> Result<Buffer> + Send + Sync>;

/// A leaf's gradient.
pub(crate) struct Slot {
    pub buffer: Option<Buffer>,
    /// Gives the buffer, until it is there.
    source: Option<GradientSource>,
    /// The buffer is the caller's: gradients are written into it, never replaced.
    pub external: bool,
    /// The gradient with its own place on the tape, where the pass was recorded.
    pub tensor: Option<Tensor>,
    /// The buffer holds a gradient (while a graph is recorded: will hold one when it is replayed).
    pub filled: bool,
}

impl Slot {
    /// Takes the caller's buffer, if there is one to be taken.
    pub(crate) fn fetch(&mut self) -> Result<()> {
        if let Some(source) = &self.source {
            self.buffer = Some(source()?);
            self.source = None;
        }
        Ok(())
    }
}

impl Leaf {
    pub(crate) fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The leaf itself, or the parameter that it is another use of.
    pub(crate) fn parameter(&self) -> &Leaf {
        self.first_use.as_deref().unwrap_or(self)
    }

    /// Identifies leaves: one address for all clones of a leaf tensor.
    pub(crate) fn identity(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

impl Input {
    pub(crate) fn constant(n_elements: usize) -> Self {
        Self {
            place: Place::Constant,
            n_elements,
        }
    }

    /// A leaf; its gradient is written into the buffer that `source` gives, or into one of its own.
    pub(crate) fn leaf(name: &str, source: Option<GradientSource>, shape: &[usize]) -> Self {
        Self::leaf_with(name, source, shape, None)
    }

    /// Another use of a parameter, with a gradient of its own.
    pub(crate) fn another_use(first: &Arc<Leaf>, source: GradientSource) -> Self {
        Self::leaf_with(
            &first.name,
            Some(source),
            &first.shape,
            Some(Arc::clone(first)),
        )
    }

    fn leaf_with(
        name: &str,
        source: Option<GradientSource>,
        shape: &[usize],
        first_use: Option<Arc<Leaf>>,
    ) -> Self {
        let slot = Slot {
            external: source.is_some(),
            buffer: None,
            source,
            tensor: None,
            filled: false,
        };
        let leaf = Leaf {
            name: name.to_owned(),
            shape: shape.to_vec(),
            hooks: Hooks::default(),
            first_use,
            slot: Mutex::new(slot),
        };
        Self {
            place: Place::Leaf(Arc::new(leaf)),
            n_elements: shape.iter().product(),
        }
    }

    /// The output of an operation that is on the tape.
    pub(crate) fn output_of(node: Arc<Node>, n_elements: usize) -> Self {
        Self {
            place: Place::Operation(node),
            n_elements,
        }
    }

    /// Tells the places of a tape apart; `None` for constants.
    pub(crate) fn identity(&self) -> Option<usize> {
        match &self.place {
            Place::Constant => None,
            Place::Leaf(leaf) => Some(leaf.identity()),
            Place::Operation(node) => Some(std::ptr::from_ref(&**node) as usize),
        }
    }

    pub(crate) fn operation(node: Node, n_elements: usize) -> Self {
        Self {
            place: Place::Operation(Arc::new(node)),
            n_elements,
        }
    }

    /// Whether a gradient of it is collected or passed on.
    pub fn requires_grad(&self) -> bool {
        !matches!(self.place, Place::Constant)
    }

    /// The extents of the tensor; `None` for constants.
    pub(crate) fn shape(&self) -> Option<&[usize]> {
        match &self.place {
            Place::Constant => None,
            Place::Leaf(leaf) => Some(&leaf.shape),
            Place::Operation(node) => Some(&node.shape),
        }
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.n_elements
    }

    pub(crate) fn as_leaf(&self) -> Option<&Arc<Leaf>> {
        match &self.place {
            Place::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        match &self.place {
            Place::Operation(node) => Some(node),
            _ => None,
        }
    }

    /// The hooks on its gradient; `None` for constants.
    pub(crate) fn hooks(&self) -> Option<&Hooks> {
        match &self.place {
            Place::Constant => None,
            Place::Leaf(leaf) => Some(&leaf.hooks),
            Place::Operation(node) => Some(&node.hooks),
        }
    }

    /// What errors and debugging output call it.
    pub(crate) fn description(&self) -> &str {
        match &self.place {
            Place::Constant => "constant",
            Place::Leaf(leaf) => &leaf.name,
            Place::Operation(node) => node.op,
        }
    }
}

impl AsRef<Self> for Input {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Input({}, {} elements)",
            self.description(),
            self.n_elements
        )
    }
}
