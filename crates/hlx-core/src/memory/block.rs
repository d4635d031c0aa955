//! A block: one allocation of the system or the driver, from which arenas hand out ranges.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::Buffer;
use crate::error::CoreError;
use crate::sizes::{LARGEST, align_words};

/// Where a block's words lie.
pub(crate) enum BlockMemory {
    /// Host memory of the CPU device.
    Cpu(CpuMemory),
    /// One device-local Vulkan buffer.
    Vulkan(Arc<vulkano::buffer::Buffer>),
    /// A buffer of a graph being recorded; its place is chosen when the whole graph is known.
    Planned(OnceLock<Placement>),
}

/// The memory of a planned buffer.
pub(crate) enum Placement {
    /// In a buffer of its own, which lives as long as a handle or the graph does.
    Own(Buffer),
    /// In the memory that graphs share, at this word of the block. Nobody holds its handle.
    Shared(Arc<Block>, usize),
}

/// One large allocation.
pub(crate) struct Block {
    /// Unique in the process; hazards are tracked by it.
    pub id: u64,
    /// Its size in 4-byte words.
    pub words: usize,
    /// Its memory.
    pub memory: BlockMemory,
    /// Whether it lies in the host's memory, though the device is another.
    in_host: bool,
    /// Whether its words are among those that the device holds: not those of a graph that is being recorded.
    is_counted: bool,
    source: Arc<BlockSource>,
}

impl Block {
    /// The block and the word in it where this one's words lie: itself, or the place of a
    /// planned buffer once it has one.
    pub fn placed(self: &Arc<Self>) -> (&Arc<Self>, usize) {
        match &self.memory {
            BlockMemory::Planned(place) => match place.get() {
                None => (self, 0),
                Some(Placement::Own(buffer)) => (buffer.block(), buffer.offset()),
                Some(Placement::Shared(block, offset)) => (block, *offset),
            },
            BlockMemory::Cpu(_) | BlockMemory::Vulkan(_) => (self, 0),
        }
    }

    /// Whether this is a buffer of a graph that is still being recorded, or whose recording
    /// failed: it has no memory.
    pub fn is_unplaced(&self) -> bool {
        matches!(&self.memory, BlockMemory::Planned(place) if place.get().is_none())
    }

    /// Whether this is a buffer of a graph, whose place the plan of its memory has chosen or will choose.
    pub fn is_planned(&self) -> bool {
        matches!(self.memory, BlockMemory::Planned(_))
    }

    /// Whether the block is of this source, so of the device that owns it.
    pub fn is_of(&self, source: &Arc<BlockSource>) -> bool {
        Arc::ptr_eq(&self.source, source)
    }

    /// The device that the block belongs to, for errors.
    pub fn owner(&self) -> &str {
        &self.source.owner
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_counted {
            self.source
                .counter(self.in_host)
                .fetch_sub(self.words as u64 * 4, Ordering::Relaxed);
        }
    }
}

/// Where blocks' memory comes from: the system on the CPU device, the driver on a Vulkan device.
pub(crate) trait BlockAllocator: Send + Sync {
    /// Allocates memory for `words` words; the caller adds the sizes to an out-of-memory error.
    fn allocate(&self, words: usize) -> Result<BlockMemory, CoreError>;

    /// Allocates host memory that the device's kernels read and write; `None` where the device's memory is the host's.
    fn allocate_in_host(&self, words: usize) -> Option<Result<BlockMemory, CoreError>>;

    /// The bytes that HLX may hold on this device, of which it holds `held_bytes`.
    fn budget_bytes(&self, held_bytes: u64) -> u64;
}

/// Makes blocks on one device and counts their bytes. Every device has one of its own, so a
/// block's source identifies the device that it belongs to.
pub(crate) struct BlockSource {
    /// The device's name, for errors.
    device_name: String,
    /// The device and the device's number, for errors.
    owner: String,
    allocator: Arc<dyn BlockAllocator>,
    held_bytes: AtomicU64,
    /// Of memory of the host's that the device's kernels use.
    host_bytes: AtomicU64,
    /// The memory that graphs work in. They run one after the other and leave nothing in it, so
    /// all share it; it is freed with the last of them.
    scratch: Mutex<Vec<Weak<Block>>>,
}

static NEXT_BLOCK_ID: AtomicU64 = AtomicU64::new(1);

impl BlockSource {
    /// Makes the source of a new opening of the device of this name and selector.
    pub fn new(device_name: &str, selector: &str, allocator: Arc<dyn BlockAllocator>) -> Self {
        static NEXT_OPENING: AtomicU64 = AtomicU64::new(1);
        let number = NEXT_OPENING.fetch_add(1, Ordering::Relaxed);
        Self {
            device_name: device_name.to_owned(),
            owner: format!("{device_name} [{selector}], opening {number}"),
            allocator,
            held_bytes: AtomicU64::new(0),
            host_bytes: AtomicU64::new(0),
            scratch: Mutex::default(),
        }
    }

    /// Returns the blocks that graphs work in, at least as large as `words` says of each.
    pub fn scratch(self: &Arc<Self>, words: &[usize]) -> Result<Vec<Arc<Block>>, CoreError> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let count = scratch.len().max(words.len());
        scratch.resize_with(count, Weak::new);
        let blocks = words.iter().zip(scratch.iter_mut());
        blocks
            .map(|(&words, slot)| match slot.upgrade() {
                Some(block) if block.words >= words => Ok(block),
                _ => {
                    let block = self.allocate(words)?;
                    *slot = Arc::downgrade(&block);
                    Ok(block)
                }
            })
            .collect()
    }

    /// Makes a block without memory, for a buffer whose place is chosen later.
    pub fn planned(self: &Arc<Self>, words: usize) -> Arc<Block> {
        Arc::new(Block {
            id: NEXT_BLOCK_ID.fetch_add(1, Ordering::Relaxed),
            words,
            memory: BlockMemory::Planned(OnceLock::new()),
            in_host: false,
            is_counted: false,
            source: Arc::clone(self),
        })
    }

    /// A block that is counted and has no memory ([`Device::give_no_memory`](crate::Device::give_no_memory)).
    pub fn without_memory(self: &Arc<Self>, words: usize, in_host: bool) -> Arc<Block> {
        self.block(BlockMemory::Planned(OnceLock::new()), words, in_host)
    }

    /// The bytes of all blocks alive.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// The bytes that may be held.
    pub fn budget_bytes(&self) -> u64 {
        self.allocator.budget_bytes(self.held_bytes())
    }

    /// The device that blocks of this source belong to, for errors.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Refuses more words than any memory has: after this check no number of bytes wraps.
    pub fn check_size(&self, words: usize) -> Result<(), CoreError> {
        match words > LARGEST {
            true => Err(self.out_of_memory(words)),
            false => Ok(()),
        }
    }

    /// The words of an allocation that holds `len` words, one at least.
    pub fn aligned(&self, len: usize) -> Result<usize, CoreError> {
        self.check_size(len)?;
        Ok(align_words(len.max(1)))
    }

    /// Refuses host memory of more words than this device's memory may have.
    pub fn check_budget(&self, words: usize) -> Result<(), CoreError> {
        self.check_size(words)?;
        match words as u64 * 4 > self.allocator.budget_bytes(self.held_bytes()) {
            true => Err(self.out_of_memory(words)),
            false => Ok(()),
        }
    }

    pub fn out_of_memory(&self, words: usize) -> CoreError {
        CoreError::OutOfMemory {
            device: self.device_name.clone(),
            requested: (words as u64).saturating_mul(4),
            in_use: self.held_bytes(),
            budget: self.allocator.budget_bytes(self.held_bytes()),
        }
    }

    /// Allocates a block, or returns an error with the bytes requested, held and allowed.
    pub fn allocate(self: &Arc<Self>, words: usize) -> Result<Arc<Block>, CoreError> {
        self.check_size(words)?;
        let bytes = words as u64 * 4;
        let budget = self.allocator.budget_bytes(self.held_bytes());
        if self.held_bytes().saturating_add(bytes) > budget {
            return Err(self.out_of_memory(words));
        }
        let memory = self
            .allocator
            .allocate(words)
            .map_err(|error| match error {
                CoreError::OutOfMemory { .. } => self.out_of_memory(words),
                other => other,
            })?;
        Ok(self.adopt(memory, words))
    }

    /// Allocates a block in the host's memory, which the device's kernels reach.
    pub fn allocate_in_host(self: &Arc<Self>, words: usize) -> Result<Arc<Block>, CoreError> {
        self.check_size(words)?;
        let (bytes, budget) = (words as u64 * 4, crate::cpu::memory_budget());
        let out_of_memory = || CoreError::OutOfMemory {
            device: format!("the host, for {}", self.device_name),
            requested: bytes,
            in_use: self.host_bytes(),
            budget,
        };
        if self.host_bytes().saturating_add(bytes) > budget {
            return Err(out_of_memory());
        }
        match self.allocator.allocate_in_host(words) {
            None => self.allocate(words),
            Some(Err(CoreError::OutOfMemory { .. })) => Err(out_of_memory()),
            Some(memory) => Ok(self.block(memory?, words, true)),
        }
    }

    /// The bytes of the host's memory that are held for the device's kernels.
    pub fn host_bytes(&self) -> u64 {
        self.host_bytes.load(Ordering::Relaxed)
    }

    fn counter(&self, in_host: bool) -> &AtomicU64 {
        match in_host {
            true => &self.host_bytes,
            false => &self.held_bytes,
        }
    }

    /// A block of memory of this device that was allocated already.
    pub fn adopt(self: &Arc<Self>, memory: BlockMemory, words: usize) -> Arc<Block> {
        self.block(memory, words, false)
    }

    fn block(self: &Arc<Self>, memory: BlockMemory, words: usize, in_host: bool) -> Arc<Block> {
        let bytes = words as u64 * 4;
        self.counter(in_host).fetch_add(bytes, Ordering::Relaxed);
        let id = NEXT_BLOCK_ID.fetch_add(1, Ordering::Relaxed);
        Arc::new(Block {
            id,
            words,
            memory,
            in_host,
            is_counted: true,
            source: Arc::clone(self),
        })
    }
}

/// Host memory, for the CPU device.
pub(crate) struct HostAllocator;

impl BlockAllocator for HostAllocator {
    fn allocate(&self, words: usize) -> Result<BlockMemory, CoreError> {
        let memory = CpuMemory::new(words).ok_or_else(|| CoreError::OutOfMemory {
            device: String::new(),
            requested: 0,
            in_use: 0,
            budget: 0,
        })?;
        Ok(BlockMemory::Cpu(memory))
    }

    fn allocate_in_host(&self, _words: usize) -> Option<Result<BlockMemory, CoreError>> {
        None
    }

    fn budget_bytes(&self, _held_bytes: u64) -> u64 {
        crate::cpu::memory_budget()
    }
}

/// Zeroed host memory, aligned to a page so that vector loads never split one needlessly; or memory of somebody else's.
pub(crate) struct CpuMemory {
    pointer: NonNull<f32>,
    layout: Layout,
    /// What keeps memory of somebody else's, which is not freed here.
    owner: Option<Box<dyn Any + Send + Sync>>,
}

// SAFETY: the memory is plain words; who may touch them when is decided by the stream, which
// runs one launch at a time.
unsafe impl Send for CpuMemory {}
// SAFETY: as above; `CpuMemory` itself only hands out the pointer.
unsafe impl Sync for CpuMemory {}

impl CpuMemory {
    fn new(words: usize) -> Option<Self> {
        let layout = Layout::from_size_align(words.max(1).checked_mul(4)?, 4096).ok()?;
        // SAFETY: the layout's size is not zero.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<f32>())?;
        Some(Self {
            pointer,
            layout,
            owner: None,
        })
    }

    /// Words of somebody else's memory, which `owner` keeps; `None` if they are not aligned.
    ///
    /// # Safety
    /// The words can be read and written for as long as `owner` lives.
    pub unsafe fn foreign(
        address: *mut u8,
        words: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Option<Self> {
        let layout = Layout::from_size_align(words.checked_mul(4)?, 4).ok()?;
        let pointer = NonNull::new(address.cast::<f32>()).filter(|pointer| pointer.is_aligned())?;
        Some(Self {
            pointer,
            layout,
            owner: Some(owner),
        })
    }

    /// The address of word `offset`.
    pub fn at(&self, offset: usize) -> *mut f32 {
        debug_assert!(offset * 4 <= self.layout.size());
        // SAFETY: callers stay within the block; arenas hand out ranges inside it.
        unsafe { self.pointer.as_ptr().add(offset) }
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        if self.owner.is_some() {
            return;
        }
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.pointer.as_ptr().cast(), self.layout) };
    }
}
