//! The backward pass: the tape walked by decreasing node number.

mod entry;
mod gradient;
mod parameter;
mod sums;
pub(crate) mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hlx_core::Device;

use crate::Result;
use crate::graph::hook::Hooks;
use crate::graph::input::{Input, Leaf};
use crate::graph::tape::{Node, Rule, no_grad};
use crate::graph::tensor::Tensor;

use watch::Watch;

pub use gradient::Gradient;
pub use parameter::ParameterTarget;

/// How a backward pass sums the gradients of parameters.
///
/// Each operation with parameters cuts the leading dimension of its input into `shards` equal
/// blocks, sums the gradient of each as one chain over its rows in order, and adds the shards
/// pairwise: (s0 + s1) + (s2 + s3), and so on. So the bits depend on the batch and on `shards`
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackwardPlan {
    /// The blocks; they must divide the leading dimension.
    pub shards: usize,
    /// Go on from the gradients that are there instead of overwriting them. With one shard the
    /// chain is continued, as if the rows of both passes had come in one; with more, the sum of
    /// the shards is added.
    pub accumulate: bool,
    /// This pass holds the whole batch. Otherwise a parameter that two operations use is refused
    /// ([`SharedParameter`](crate::AutogradError::SharedParameter)), as the order of its sum would depend on the split.
    pub whole_batch: bool,
}

impl Default for BackwardPlan {
    fn default() -> Self {
        Self {
            shards: 1,
            accumulate: false,
            whole_batch: true,
        }
    }
}

/// The gradient of a tensor, incomplete until all its consumers have been differentiated.
struct Pending {
    node: Arc<Node>,
    gradient: Gradient,
}

/// A running backward pass, as the operations see it.
pub struct Backward<'a> {
    /// That of the operation whose derivative runs.
    device: Device,
    plan: &'a BackwardPlan,
    /// The derivatives go on the tape themselves, and what they need stays.
    recorded: bool,
    /// For a pass that collects the gradients of some tensors instead of those of the leaves: what
    /// has reached each so far.
    wanted: Option<HashMap<usize, Option<Gradient>>>,
    /// Leaves that hold a gradient are added to, whatever the plan says (PyTorch's rule).
    adds_to_filled: bool,
    op: &'static str,
    pending: BTreeMap<u64, Pending>,
    written: HashSet<usize>,
    /// The other uses of parameters among them, the last that went forward first.
    uses: Vec<Arc<Leaf>>,
    /// What has reached each leaf with hooks so far, in the order in which they were reached.
    hooked: Vec<(Input, Gradient)>,
}

impl<'a> Backward<'a> {
    fn new(device: &Device, plan: &'a BackwardPlan, adds_to_filled: bool) -> Self {
        Self {
            device: device.clone(),
            plan,
            recorded: false,
            wanted: None,
            adds_to_filled,
            op: "backward",
            pending: BTreeMap::new(),
            written: HashSet::new(),
            uses: Vec::new(),
            hooked: Vec::new(),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether the pass is recorded on the tape, so that derivatives must be made of operations.
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// The plan's number of shards.
    pub fn shards(&self) -> usize {
        self.plan.shards
    }

    /// Whether the pass goes on within a shard that a pass before it began.
    pub(crate) fn continues_shard(&self) -> bool {
        self.plan.accumulate
    }

    /// Adds a gradient to an input's; does nothing if the input requires none.
    ///
    /// # Errors
    /// What the device reports, and [`SharedParameter`](crate::AutogradError::SharedParameter).
    pub fn add(&mut self, input: impl AsRef<Input>, gradient: Gradient) -> Result<()> {
        let input = input.as_ref();
        gradient.read();
        watch::check()?;
        if let Some(leaf) = input.as_leaf() {
            let _unwatched = Watch::off();
            return match self.wanted {
                Some(_) => self.add_to_wanted(leaf.parameter().identity(), gradient),
                None if !leaf.hooks.is_empty() => self.add_to_hooked(input, gradient),
                None => self.add_to_leaf(leaf, input.n_elements(), gradient),
            };
        }
        let Some(node) = input.node() else {
            return Ok(());
        };
        let gradient = match self.pending.remove(&node.id) {
            None => gradient,
            Some(earlier) => self.sum(earlier.gradient, gradient)?,
        };
        self.pending.insert(
            node.id,
            Pending {
                node: Arc::clone(node),
                gradient,
            },
        );
        Ok(())
    }

    /// Adds a gradient that operations have computed.
    ///
    /// # Errors
    /// As [`Backward::add`].
    pub fn add_tensor(&mut self, input: impl AsRef<Input>, gradient: &Tensor) -> Result<()> {
        self.add(input, Gradient::of(gradient.clone()))
    }

    /// Takes what has reached an input so far, for a kernel that adds its own to it; the sum then
    /// goes to [`Backward::add`]. `None` for leaves, and where there is none yet.
    pub(crate) fn take_pending(&mut self, input: &Input) -> Option<Gradient> {
        let node = input.node()?;
        if self.wanted.is_some() {
            return None;
        }
        Some(self.pending.remove(&node.id)?.gradient)
    }

    fn run(&mut self) -> Result<()> {
        while let Some((_, Pending { node, gradient })) = self.pending.pop_last() {
            self.op = node.op;
            if !node.device.is_same(&self.device) {
                self.device = node.device.clone();
            }
            let gradient = self.hooked(&node.hooks, gradient, &node.shape)?;
            let identity = std::ptr::from_ref(&*node) as usize;
            let wanted = |all: &HashMap<_, _>| all.contains_key(&identity);
            if self.wanted.as_ref().is_some_and(wanted) {
                let reached = gradient.tensor(&self.device, &node.shape)?;
                self.add_to_wanted(identity, Gradient::of(reached))?;
            }
            let _watch = Watch::of(&node);
            self.differentiate(&node, gradient)?;
            watch::check()?;
        }
        for (input, gradient) in std::mem::take(&mut self.hooked) {
            let Some(leaf) = input.as_leaf() else {
                continue;
            };
            let gradient = self.hooked(&leaf.hooks, gradient, &leaf.shape)?;
            self.add_to_leaf(leaf, input.n_elements(), gradient)?;
        }
        match self.plan.whole_batch {
            true => self.add_uses(),
            false => Ok(()),
        }
    }

    /// Runs the derivative of one operation, with products as its own.
    fn differentiate(&mut self, node: &Arc<Node>, gradient: Gradient) -> Result<()> {
        let _scope = node.autocast.enter();
        if self.recorded {
            let (rule, output) = node.rule()?;
            let dy = gradient.tensor(&self.device, &node.shape)?;
            let input = |y: &Tensor| Input::output_of(Arc::clone(node), y.n_elements());
            let output = output.map(|y| y.at(input(&y)));
            return rule(self, &dy, output.as_ref());
        }
        match node.take()?.rule {
            Rule::Once(backward) => backward(self, gradient),
            Rule::Tensors { rule, output } => {
                let dy = gradient.tensor(&self.device, &node.shape)?;
                no_grad(|| rule(self, &dy, output.as_ref()))
            }
        }
    }

    /// A complete gradient after a tensor's hooks.
    fn hooked(&self, hooks: &Hooks, gradient: Gradient, shape: &[usize]) -> Result<Gradient> {
        if hooks.is_empty() {
            return Ok(gradient);
        }
        let gradient = gradient.tensor(&self.device, shape)?;
        let apply = || hooks.apply(gradient);
        let gradient = match self.recorded {
            true => apply(),
            false => no_grad(apply),
        };
        Ok(Gradient::of(gradient?))
    }

    /// Adds to the gradient of a leaf with hooks, which the leaf gets at the end of the pass.
    fn add_to_hooked(&mut self, leaf: &Input, gradient: Gradient) -> Result<()> {
        let place = |(other, _): &(Input, Gradient)| other.identity() == leaf.identity();
        let total = match self.hooked.iter().position(place) {
            None => gradient,
            Some(place) => {
                let (_, earlier) = self.hooked.remove(place);
                self.sum(earlier, gradient)?
            }
        };
        self.hooked.push((leaf.clone(), total));
        Ok(())
    }

    /// Computes what belongs to operations of another device: a copy between devices.
    pub(crate) fn within(
        &mut self,
        device: &Device,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let own = std::mem::replace(&mut self.device, device.clone());
        let result = body(self);
        self.device = own;
        result
    }
}
