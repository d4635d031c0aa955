//! Digests at the speed of the device: SHA-256 over a tree of fixed leaves.
//!
//! A root is a function of the bytes alone, and is the same from [`tree_digest`] on any device, from
//! [`tree_digest_f32`] on the host, and from any
//! SHA-256 that follows this specification. `B(text)` is a block of 64 bytes, the text in ASCII
//! and then zeros; `|` concatenates byte strings.
//!
//! ```text
//! bytes  = the words in order, each in little-endian order; of f32, every NaN as 0x7fc00000
//! leaves = bytes cut every 65,536; the last may be shorter, and no bytes are one empty leaf
//! leaf   = SHA-256(B("HLX tree digest 1: leaf") | the leaf's bytes)
//! node   = SHA-256(B("HLX tree digest 1: node") | the digests of its 1 to 64 children)
//! root   = SHA-256(B("HLX tree digest 1: root of f32") | length | top)
//! list   = SHA-256(B("HLX tree digest 1: list") | for each tensor, in order:
//!              length of the name | name | number of extents | each extent | root)
//! ```
//!
//! A level of more than one digest is cut every 64 digests, and each piece gives a node (also a
//! last piece of one), until one digest is left: the top. Lengths are in bytes, numbers of 8 bytes
//! in little-endian order. The root's block ends in `f32` or `u32`. Leaf, node, root and
//! list begin with different blocks, so that the digest of one kind is never that of another; -0 and +0 differ.
//!
//! On a device a level is one launch over all tensors. A leaf or a node is hashed by a pair of
//! threads, one for the schedule and one for the rounds; where there are many, and on a software
//! driver, where barriers are expensive, by one thread. On the CPU a worker hashes one with the processor's
//! SHA instructions.

mod host;
mod plan;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use hlx_core::{Buffer, Device, PendingDownload, as_u32};
use sha2::Digest;

use crate::kernel::Kernel;
use crate::parallel::{self, read, write};
use crate::tuning::KernelTuning;
use crate::{KernelError, Result};
pub use host::tree_digest_f32;
use host::{Domain, bytes_of, hash_words, prefixed, words_of};
use plan::{Plan, PlannedLaunch, end_of};

shader!(tree_digest::{chunks, pairs});
const DIGEST_WORDS: usize = 8;
/// Chunks of a workgroup: few, so that the leaves spread over all processors of a device.
const GROUP_CHUNKS: usize = 32;
const BLOCK_WORDS: usize = 16;

/// The two constants of the tree; tests have smaller ones.
#[derive(Clone, Copy, Debug)]
struct Tree {
    leaf_words: usize,
    fan_out: usize,
}

/// The tree of the specification: leaves of 64 KiB, nodes of 64 digests.
const TREE: Tree = Tree {
    leaf_words: 1 << 14,
    fan_out: 64,
};

/// What the words of a buffer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigestKind {
    /// Floats: every NaN counts as 0x7fc00000.
    F32,
    /// Words, taken as they are.
    U32,
}

impl DigestKind {
    fn root(self) -> Domain {
        match self {
            Self::F32 => Domain::RootF32,
            Self::U32 => Domain::RootU32,
        }
    }
}

/// The root of a tree: 32 bytes, written and parsed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeDigest([u8; 32]);

impl TreeDigest {
    /// The digest's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for TreeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hlx_core::bytes::to_hex(&self.0))
    }
}

impl fmt::Debug for TreeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TreeDigest({self})")
    }
}

impl FromStr for TreeDigest {
    type Err = KernelError;

    /// Reads 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
        let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
        let digits = digits.filter(|digits| digits.len() == 64);
        let digits = digits.ok_or_else(|| {
            let reason = format!("`{text}` is no digest, expected 64 hexadecimal digits");
            KernelError::argument("tree_digest")(reason)
        })?;
        let byte = |i: usize| digits[2 * i] << 4 | digits[2 * i + 1];
        Ok(Self(std::array::from_fn(byte)))
    }
}

/// Where a tensor lies in a flat buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpan {
    /// Its name.
    pub name: String,
    /// Its extents; their product is its number of words.
    pub shape: Vec<usize>,
    /// Its first word, a multiple of 4.
    pub offset: usize,
}

/// A tensor's root, and what its list's root covers besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRoot {
    /// The tensor's name.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// The root over its words.
    pub root: TreeDigest,
}

/// The roots of named tensors, and one root over all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDigest {
    /// The tensors in their order.
    pub tensors: Vec<TensorRoot>,
    /// The root over names, shapes and roots.
    pub root: TreeDigest,
}

impl ListDigest {
    /// Computes the root over tensors in this order.
    pub fn new(tensors: Vec<TensorRoot>) -> Self {
        let mut hash = prefixed(Domain::List);
        for tensor in &tensors {
            hash.update((tensor.name.len() as u64).to_le_bytes());
            hash.update(tensor.name.as_bytes());
            hash.update((tensor.shape.len() as u64).to_le_bytes());
            for &extent in &tensor.shape {
                hash.update((extent as u64).to_le_bytes());
            }
            hash.update(tensor.root.0);
        }
        let root = TreeDigest(hash.finalize().into());
        Self { tensors, root }
    }
}

/// Computes the root over a whole buffer, and waits for it.
///
/// # Errors
/// What the device reports; [`hlx_core::CoreError::Invalid`] while a graph is being recorded (use a
/// [`TreeDigester`] made before).
pub fn tree_digest(device: &Device, buffer: &Buffer, kind: DigestKind) -> Result<TreeDigest> {
    let span = TensorSpan {
        name: "buffer".to_owned(),
        shape: vec![buffer.len()],
        offset: 0,
    };
    let list = TreeDigester::new(device, kind, vec![span])?.digest(buffer)?;
    Ok(list.tensors[0].root)
}

/// The digest of named tensors in a flat buffer, prepared once: parameters, or optimizer state.
///
/// [`TreeDigester::launch`] is work like any other: it does not wait, and may be recorded in a
/// graph. [`TreeDigester::read`] waits for all work and returns the roots of the last launch;
/// [`TreeDigester::read_later`] starts their download and does not wait.
pub struct TreeDigester {
    device: Device,
    kind: DigestKind,
    tensors: Vec<TensorSpan>,
    plan: Plan,
    /// Start and length of each chunk of each launch.
    chunks: Buffer,
    /// The digests of all levels.
    digests: Buffer,
}

/// Digests whose download is under way.
pub struct PendingDigests(PendingDownload);

impl PendingDigests {
    /// Whether they have arrived.
    ///
    /// # Errors
    /// [`hlx_core::CoreError::DeviceLost`].
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.0.is_done()?)
    }
}

impl TreeDigester {
    /// Prepares the digest of these tensors: uploads their table and takes memory for their
    /// digests, about 1/2,000 of their size.
    ///
    /// # Errors
    /// [`KernelError::Argument`] for an offset that is no multiple of 4; what the device reports;
    /// [`hlx_core::CoreError::Invalid`] while a graph is being recorded.
    pub fn new(device: &Device, kind: DigestKind, tensors: Vec<TensorSpan>) -> Result<Self> {
        Self::with_tree(device, kind, tensors, TREE, device.max_binding_words())
    }

    /// As [`TreeDigester::new`], with another tree and windows of at most `window` words.
    fn with_tree(
        device: &Device,
        kind: DigestKind,
        tensors: Vec<TensorSpan>,
        tree: Tree,
        window: usize,
    ) -> Result<Self> {
        // A plan has an entry for each 4,096 words or so: sizes are checked before it is made.
        let most = usize::try_from(device.info().memory_bytes / 4).unwrap_or(usize::MAX);
        for tensor in &tensors {
            let end = end_of(tensor)?;
            check_that!("tree_digest", end <= most =>
                "`{name}` ends at word {end}, the device's memory has {most}",
                name = &tensor.name)?;
        }
        let plan = Plan::new(&tensors, tree, window)?;
        let chunks = device.buffer_of::<u32>(&plan.chunks)?;
        let digests = device.alloc(plan.digest_words)?;
        device.fill(&digests, 0)?;
        Ok(Self {
            device: device.clone(),
            kind,
            tensors,
            plan,
            chunks,
            digests,
        })
    }

    /// Launches the digest of `buffer`, which holds the tensors at their offsets.
    ///
    /// # Errors
    /// [`KernelError::Argument`], which names the first tensor that lies outside the buffer; what
    /// the device reports.
    pub fn launch(&self, buffer: &Buffer) -> Result<()> {
        Self::launch_together(&[(self, buffer)])
    }

    /// Launches several digests, each of its buffer, level by level: leaves run side by side, and
    /// all together take hardly longer than one. A leaf is a chain of 1,025 blocks, which takes an
    /// H200 more than a millisecond however few or many there are.
    ///
    /// # Errors
    /// As [`TreeDigester::launch`].
    pub fn launch_together(digests: &[(&Self, &Buffer)]) -> Result<()> {
        for (digester, buffer) in digests {
            digester.check_ends(buffer)?;
        }
        let n_launches = |digester: &Self| digester.plan.launches.len();
        let most = digests
            .iter()
            .map(|(digester, _)| n_launches(digester))
            .max();
        for at in 0..most.unwrap_or(0) {
            for (digester, buffer) in digests {
                if let Some(planned) = digester.plan.launches.get(at) {
                    digester.launch_planned(planned, buffer)?;
                }
            }
        }
        Ok(())
    }

    /// Fails for the first tensor that lies outside the buffer.
    fn check_ends(&self, buffer: &Buffer) -> Result<()> {
        for (tensor, end) in self.tensors.iter().zip(&self.plan.ends) {
            check_that!("tree_digest", *end <= buffer.len() =>
                "`{name}` ends at word {end} of a buffer of {found}",
                name = &tensor.name, found = buffer.len())?;
        }
        Ok(())
    }

    /// Launches a level, or the leaves of one window.
    fn launch_planned(&self, planned: &PlannedLaunch, buffer: &Buffer) -> Result<()> {
        let &PlannedLaunch { n, first, .. } = planned;
        let (from, domain) = match planned.is_leaves {
            true => (buffer, Domain::Leaf),
            false => (&self.digests, Domain::Node),
        };
        let canonical = planned.is_leaves && self.kind == DigestKind::F32;
        let source = from.slice(planned.source.start, planned.source.len())?;
        let chunks = self.chunks.slice(planned.chunks_at, 2 * n)?;
        let target = self
            .digests
            .slice(planned.target.start, planned.target.len())?;
        let state = host::state_after(domain);
        // The padding after the words: a one bit, zeros, and the length.
        let blocks = (planned.longest + 3).div_ceil(BLOCK_WORDS);
        let (shader, push) = match n <= KernelTuning::of(&self.device).digest_pairs_up_to {
            true => (&pairs::SHADER, push!(pairs => state, n, first, blocks)),
            false => (&chunks::SHADER, push!(chunks => state, n, first)),
        };
        // Another window has written, or will write, the other digests of the level.
        let shares = n * DIGEST_WORDS != planned.target.len();
        let kernel = Kernel::new("tree_digest", shader)
            .constants(constants!(0: canonical))
            .reads([&source, &chunks])
            .accumulate("digests", &target, planned.target.len(), shares)?;
        let groups = n.div_ceil(GROUP_CHUNKS);
        kernel.launch(&self.device, push, groups, move |inputs, outputs| {
            let ([words, chunks], [digests]) = (inputs, outputs);
            let words = as_u32(words);
            let digests: &mut [u32] = bytemuck::cast_slice_mut(digests);
            let digests = &mut digests[first * DIGEST_WORDS..][..n * DIGEST_WORDS];
            let pieces = (write(digests, DIGEST_WORDS), read(as_u32(chunks), 2));
            parallel::for_each(pieces, |_, (digest, chunk)| {
                let words = &words[chunk[0] as usize..][..chunk[1] as usize];
                digest.copy_from_slice(&words_of(hash_words(domain, words, canonical)));
            });
        })
    }

    /// Waits for all work and returns the digests of the last launch; before the first launch
    /// they mean nothing.
    ///
    /// # Errors
    /// [`hlx_core::CoreError::DeviceLost`]; [`hlx_core::CoreError::Invalid`] while a graph is being
    /// recorded.
    pub fn read(&self) -> Result<ListDigest> {
        let digests = self.device.download_words(&self.digests)?;
        Ok(self.list(&digests))
    }

    /// Starts to download the digests of the last launch and returns at once; launches that
    /// follow do not change them. [`TreeDigester::receive`] takes them in.
    ///
    /// # Errors
    /// As [`TreeDigester::read`].
    pub fn read_later(&self) -> Result<PendingDigests> {
        let digests = self.device.download_later(&self.digests)?;
        Ok(PendingDigests(digests))
    }

    /// Waits for digests whose download [`TreeDigester::read_later`] of this digester has started.
    ///
    /// # Errors
    /// [`hlx_core::CoreError::DeviceLost`]; [`KernelError::Argument`] for another digester's.
    pub fn receive(&self, pending: PendingDigests) -> Result<ListDigest> {
        let digests = pending.0.wait()?;
        check_that!("tree_digest", digests.len() == self.digests.len() =>
            "the digests have {found} words, expected {expected}: another digester's",
            found = digests.len(), expected = self.digests.len())?;
        Ok(self.list(&digests))
    }

    /// Makes the roots from the digests of all levels.
    fn list(&self, digests: &[u32]) -> ListDigest {
        let tensors = self.tensors.iter().enumerate().map(|(i, tensor)| {
            // A tensor without words has its one leaf from the host.
            let top = match self.plan.tops[i] {
                Some(place) => bytes_of(&digests[place..place + DIGEST_WORDS]),
                None => hash_words(Domain::Leaf, &[], false),
            };
            let bytes = 4 * (self.plan.ends[i] - tensor.offset);
            TensorRoot {
                name: tensor.name.clone(),
                shape: tensor.shape.clone(),
                root: host::root(self.kind.root(), bytes, top),
            }
        });
        ListDigest::new(tensors.collect())
    }

    /// Launches the digest of `buffer` and waits for it.
    ///
    /// # Errors
    /// As [`TreeDigester::launch`] and [`TreeDigester::read`].
    pub fn digest(&self, buffer: &Buffer) -> Result<ListDigest> {
        self.launch(buffer)?;
        self.read()
    }
}
