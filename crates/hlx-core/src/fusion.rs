//! Chains of launches whose elements are independent, joined into one launch when a graph is
//! recorded.
//!
//! A launcher hands such a launch over with a [`Fusable`], which says what this crate does not know:
//! which operands are read element by element, and how the kernels of several launches become one.
//! `groups.rs` decides which launches of a recording are joined, by what they read and write.

mod groups;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub(crate) use groups::{Chain, Node, Planned, fuse};

use crate::error::CoreError;
use crate::launch::CpuBody;
use crate::shader::Shader;

/// Launches that one chain has at most.
pub const MAX_STAGES: usize = 12;

/// The name of chains in timing reports and errors.
pub(crate) const CHAIN_NAME: &str = "chain";

/// A launch that writes each element of its one result from elements of its operands, without
/// looking at others: its bindings are operands that are only read, and then the result, which is
/// only written.
///
/// The result of a chain of launches must have the bits that its launches have one by one.
pub trait Fusable: Any + Send + Sync {
    /// Itself, so that a launch of a family finds others of the same.
    fn as_any(&self) -> &dyn Any;

    /// The number of elements of the result.
    fn elements(&self) -> usize;

    /// Whether the bound window of an operand holds as many elements, in the same order, so that
    /// the launch that writes them may hand them over.
    fn is_each(&self, operand: usize) -> bool;

    /// Whether a chain can be joined within a device's limits. Called on its last launch.
    fn joins(&self, chain: &[Stage], limits: Limits) -> bool;

    /// Joins a chain into one launch of a Vulkan device: its bindings are what is read in the order
    /// of [`Source::Bound`], and then the stored results in the order of the launches.
    ///
    /// # Errors
    /// A shader that cannot be joined, which is a fault of its launcher.
    fn join(&self, chain: &[Stage]) -> Result<Joined, CoreError>;

    /// Joins a chain into one body of the CPU device, with the same bindings.
    fn join_on_cpu(&self, chain: &[Stage]) -> CpuBody;
}

impl fmt::Debug for dyn Fusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fusable({} elements)", self.elements())
    }
}

/// What a device takes in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bound windows.
    pub bindings: usize,
    /// Bytes of push constants.
    pub push_bytes: usize,
}

impl Limits {
    /// Those of the CPU device, which has none.
    pub(crate) const NONE: Self = Self {
        bindings: usize::MAX,
        push_bytes: usize::MAX,
    };
}

/// A launch of a chain.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What it computes.
    pub launch: Arc<dyn Fusable>,
    /// Where each of its operands comes from.
    pub sources: Vec<Source>,
    /// Whether its result is read by others than this chain.
    pub is_stored: bool,
}

/// Where an operand of a launch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A bound window of the chain.
    Bound(usize),
    /// The result of an earlier launch of the chain.
    Stage(usize),
}

/// A chain as one launch of a Vulkan device.
#[derive(Debug)]
pub struct Joined {
    /// The shader.
    pub shader: &'static Shader,
    /// Its specialization constants.
    pub specialization: Vec<(u32, u32)>,
    /// Its push constants.
    pub push: Vec<u8>,
    /// Its workgroups.
    pub groups: [u32; 3],
}
