//! A launch: one kernel with its arguments, for either kind of device.

use std::sync::Arc;

use crate::dtype::{DType, Element};
use crate::error::CoreError;
use crate::memory::{Block, BlockMemory, BlockSource, Buffer, TensorPool};
use crate::shader::Shader;
use crate::timing::Work;

/// A buffer argument and what the kernel does with it.
#[derive(Clone, Copy, Debug)]
pub enum Binding<'a> {
    /// Only read.
    Read(&'a Buffer),
    /// Written, every word of the result; not read.
    Write(&'a Buffer),
    /// Read and written in place.
    ReadWrite(&'a Buffer),
}

impl<'a> Binding<'a> {
    /// The buffer.
    pub fn buffer(&self) -> &'a Buffer {
        match self {
            Self::Read(buffer) | Self::Write(buffer) | Self::ReadWrite(buffer) => buffer,
        }
    }

    /// Whether the kernel writes it.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Read(_))
    }

    /// Whether the kernel reads it.
    pub fn reads(&self) -> bool {
        !matches!(self, Self::Write(_))
    }
}

impl Work {
    /// The bytes of all bound windows: what is read and written counts twice, a window that is
    /// bound twice to be read counts once.
    pub fn of(bindings: &[Binding<'_>]) -> Self {
        let again = |index: usize, binding: &Binding<'_>| {
            let mut before = bindings[..index].iter();
            !binding.writes() && before.any(|other| other.buffer().overlaps(binding.buffer()))
        };
        let words = bindings.iter().enumerate().map(|(index, binding)| {
            let times = u64::from(binding.reads()) + u64::from(binding.writes());
            match again(index, binding) {
                true => 0,
                false => times * binding.buffer().words() as u64,
            }
        });
        Self {
            bytes: 4 * words.sum::<u64>(),
            flops: 0,
        }
    }
}

/// One kernel with its arguments. Binding `i` is descriptor set 0, binding `i`.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The name in timing reports and errors: `layer_norm_forward`.
    pub name: &'static str,
    /// The shader that a Vulkan device runs.
    pub shader: &'static Shader,
    /// Specialization constants: id and word (the bits, for a float).
    pub specialization: &'a [(u32, u32)],
    /// The buffers, in binding order.
    pub bindings: &'a [Binding<'a>],
    /// The push constants.
    pub push: &'a [u8],
    /// Workgroups in x, y and z; a launch with a zero among them does nothing.
    pub groups: [u32; 3],
}

impl Launch<'_> {
    /// What timing reports count for this launch if its launcher says nothing else: the bytes of the
    /// bound windows, and no operations.
    pub fn work(&self) -> Work {
        Work::of(self.bindings)
    }
}

/// Checks what holds on every device: all buffers are of the context that owns `source`, and no
/// written range overlaps another binding.
pub(crate) fn check_bindings(
    name: &str,
    bindings: &[Binding<'_>],
    source: &Arc<BlockSource>,
) -> Result<(), CoreError> {
    for (index, binding) in bindings.iter().enumerate() {
        check_owner(
            name,
            &|| format!("binding {index}"),
            binding.buffer(),
            source,
        )?;
        for (other_index, other) in bindings.iter().enumerate().skip(index + 1) {
            let conflict = binding.writes() || other.writes();
            if conflict && binding.buffer().overlaps(other.buffer()) {
                return Err(CoreError::invalid(
                    name,
                    format!(
                        "bindings {index} and {other_index} share memory and one is written; \
                         use one ReadWrite binding for work in place"
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Refuses a buffer of another context than the one that owns `source`.
pub(crate) fn check_owner(
    operation: &str,
    argument: &dyn Fn() -> String,
    buffer: &Buffer,
    source: &Arc<BlockSource>,
) -> Result<(), CoreError> {
    let block = buffer.block();
    if block.is_of(source) {
        return Ok(());
    }
    Err(CoreError::OtherContext {
        operation: operation.to_owned(),
        argument: argument(),
        found: block.owner().to_owned(),
        expected: source.owner().to_owned(),
    })
}

/// The words of one bound buffer on the CPU device, and what they hold.
#[derive(Clone, Copy)]
struct Slot {
    pointer: *mut f32,
    words: usize,
    len: usize,
    dtype: DType,
    writes: bool,
}

/// A read buffer of a launch on the CPU device.
#[derive(Clone, Copy, Debug)]
pub struct ReadSlice<'a> {
    words: &'a [f32],
    len: usize,
    dtype: DType,
}

/// A written buffer of a launch on the CPU device.
#[derive(Debug)]
pub struct WriteSlice<'a> {
    words: &'a mut [f32],
    len: usize,
    dtype: DType,
}

impl<'a> ReadSlice<'a> {
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The elements.
    ///
    /// # Panics
    /// If they are of another type: the launcher is wrong.
    pub fn of<T: Element>(&self) -> &'a [T] {
        check_type(self.dtype, T::DTYPE);
        &bytemuck::cast_slice(self.words)[..self.len]
    }
}

impl WriteSlice<'_> {
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The elements.
    ///
    /// # Panics
    /// If they are of another type: the launcher is wrong.
    pub fn of<T: Element>(&mut self) -> &mut [T] {
        check_type(self.dtype, T::DTYPE);
        &mut bytemuck::cast_slice_mut(self.words)[..self.len]
    }
}

fn check_type(found: DType, expected: DType) {
    assert_eq!(
        found, expected,
        "a bound buffer has other elements than the CPU body takes"
    );
}

/// What the CPU closure of a launch works on: its buffers as slices.
pub struct CpuBindings<'a> {
    slots: &'a [Slot],
}

impl CpuBindings<'_> {
    /// Returns the slices of words: the `R` read bindings in binding order, then the `W` written
    /// ones.
    ///
    /// # Panics
    /// If the launch has other numbers of read and written bindings: the launcher is wrong.
    pub fn split<const R: usize, const W: usize>(&mut self) -> ([&[f32]; R], [&mut [f32]; W]) {
        let (reads, writes) = self.split_typed();
        (
            reads.map(|read| read.words),
            writes.map(|write| write.words),
        )
    }

    /// Returns the typed slices: the `R` read bindings in binding order, then the `W` written ones.
    ///
    /// # Panics
    /// As [`CpuBindings::split`].
    pub fn split_typed<const R: usize, const W: usize>(
        &mut self,
    ) -> ([ReadSlice<'_>; R], [WriteSlice<'_>; W]) {
        let count = self.slots.iter().filter(|slot| slot.writes).count();
        assert!(
            count == W && self.slots.len() == R + W,
            "launch has {} read and {count} written bindings, the CPU body takes {R} and {W}",
            self.slots.len() - count,
        );
        let mut reads = self.slots.iter().filter(|slot| !slot.writes);
        let mut writes = self.slots.iter().filter(|slot| slot.writes);
        let read_slices = std::array::from_fn(|_| {
            let slot = reads.next().copied().unwrap_or(EMPTY);
            // SAFETY: the launch holds the buffer's memory alive; `Launch::check` proved that
            // no written range overlaps it; the stream runs one launch at a time.
            let words = unsafe { std::slice::from_raw_parts(slot.pointer, slot.words) };
            ReadSlice {
                words,
                len: slot.len,
                dtype: slot.dtype,
            }
        });
        let write_slices = std::array::from_fn(|_| {
            let slot = writes.next().copied().unwrap_or(EMPTY);
            // SAFETY: as above; each written slot is visited once a call, and `&mut self` keeps
            // the slices of two calls apart.
            let words = unsafe { std::slice::from_raw_parts_mut(slot.pointer, slot.words) };
            WriteSlice {
                words,
                len: slot.len,
                dtype: slot.dtype,
            }
        });
        (read_slices, write_slices)
    }
}

/// A slot of no words, which `split` never returns: it has counted the slots.
const EMPTY: Slot = Slot {
    pointer: std::ptr::NonNull::dangling().as_ptr(),
    words: 0,
    len: 0,
    dtype: DType::F32,
    writes: false,
};

/// The CPU body of a launch.
pub(crate) type CpuBody = Box<dyn Fn(&mut CpuBindings<'_>) + Send + Sync>;

/// A launch made ready for the CPU: its body, and its slots with the memory they point into.
pub(crate) struct CpuLaunch {
    pub name: &'static str,
    pub work: Work,
    slots: Vec<Slot>,
    body: CpuBody,
    /// Keeps the memory alive as long as the launch may run.
    _memory: Vec<Held>,
}

/// What a launch keeps of a bound buffer.
enum Held {
    /// Its block alone: its words may go to another buffer after the launch.
    Block { _block: Arc<Block> },
    /// The buffer: a graph may be replayed, and reads or writes the words again.
    Buffer { _buffer: Buffer },
}

impl Held {
    /// Keeps what a launch needs of `buffer`. A launch of a graph, which allocates from
    /// `graph_pool`, keeps buffers from outside; those of the pool nobody else is given.
    fn of(buffer: &Buffer, graph_pool: Option<&Arc<TensorPool>>) -> Self {
        match graph_pool {
            Some(pool) if !buffer.is_from(pool) => Self::Buffer {
                _buffer: buffer.clone(),
            },
            _ => Self::Block {
                _block: Arc::clone(buffer.block()),
            },
        }
    }
}

// SAFETY: the slots point into blocks that `_memory` keeps alive; they are read and written
// only while the launch runs, one launch at a time.
unsafe impl Send for CpuLaunch {}
// SAFETY: as above.
unsafe impl Sync for CpuLaunch {}

impl CpuLaunch {
    /// Makes a launch ready; `graph_pool` is the pool of the graph that it is recorded into.
    pub fn new(
        (name, work): (&'static str, Work),
        bindings: &[Binding<'_>],
        graph_pool: Option<&Arc<TensorPool>>,
        body: CpuBody,
    ) -> Result<Self, CoreError> {
        let mut slots = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let buffer = binding.buffer();
            let BlockMemory::Cpu(memory) = &buffer.block().memory else {
                return Err(CoreError::invalid(
                    name,
                    "a buffer of a Vulkan device on the CPU",
                ));
            };
            let pointer = memory.at(buffer.offset());
            slots.push(Slot {
                pointer,
                words: buffer.words(),
                len: buffer.len(),
                dtype: buffer.dtype(),
                writes: binding.writes(),
            });
        }
        let memory = bindings
            .iter()
            .map(|binding| Held::of(binding.buffer(), graph_pool))
            .collect();
        Ok(Self {
            name,
            work,
            slots,
            body,
            _memory: memory,
        })
    }

    /// Runs the body; called in a worker of the CPU device.
    pub fn run(&self) {
        (self.body)(&mut CpuBindings { slots: &self.slots });
    }
}

/// Views words as unsigned integers (ids, counters).
pub fn as_u32(words: &[f32]) -> &[u32] {
    bytemuck::cast_slice(words)
}

/// The bytes of a push-constant struct made by `shader!`.
pub fn push_bytes<T: bytemuck::NoUninit>(push: &T) -> &[u8] {
    bytemuck::bytes_of(push)
}

/// Spreads `count` workgroups over x and y, both within the 65,535 that every device takes. The
/// shader gets the index back from `hlx_group()` and must check it against its bound.
pub fn groups_1d(count: usize) -> [u32; 3] {
    const LARGEST: usize = 65_535;
    if count <= LARGEST {
        return [count as u32, 1, 1];
    }
    let y = count.div_ceil(LARGEST);
    [count.div_ceil(y) as u32, y as u32, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_the_count_within_limits() {
        for count in [0, 1, 65_535, 65_536, 1_000_000, 4_000_000_000 / 256] {
            let [x, y, z] = groups_1d(count);
            assert!(x as usize * y as usize * z as usize >= count);
            assert!(x <= 65_535 && y <= 65_535 && z == 1);
        }
    }
}
