//! A launch: one kernel with its arguments, for either kind of device.

use std::sync::Arc;

use crate::dtype::{DType, Element};
use crate::error::CoreError;
use crate::memory::{Block, BlockMemory, BlockSource, Buffer};
use crate::shader::Shader;
use crate::timing::Work;
use crate::view::View;

/// A buffer argument and what the kernel does with it.
#[derive(Clone, Copy, Debug)]
pub enum Binding<'a> {
    /// Only read.
    Read(&'a Buffer),
    /// Written, every word of the result; not read.
    Write(&'a Buffer),
    /// Read and written in place.
    ReadWrite(&'a Buffer),
    /// Written, every word, each by a thread that has read the same word of the launch's first binding
    /// and that no other thread reads: a graph may give both the same memory.
    Replace(&'a Buffer),
    /// Written, every word, with the values that an earlier launch has written there: two launches that
    /// make something else of one computation both store what they have in common. A graph leaves a launch
    /// out of which nobody reads anything else, and an earlier one of which nobody else reads anything.
    Rewrite(&'a Buffer),
}

impl<'a> Binding<'a> {
    /// The buffer.
    pub fn buffer(&self) -> &'a Buffer {
        match self {
            Self::Read(buffer)
            | Self::Write(buffer)
            | Self::ReadWrite(buffer)
            | Self::Replace(buffer)
            | Self::Rewrite(buffer) => buffer,
        }
    }

    /// Whether the kernel writes it.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Read(_))
    }

    /// Whether the kernel reads it.
    pub fn reads(&self) -> bool {
        !matches!(self, Self::Write(_) | Self::Replace(_) | Self::Rewrite(_))
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
            bytes: words.fold(0_u64, |sum, words| sum.saturating_add(4 * words)),
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

/// Checks what holds on every device: all buffers are of the opening that owns `source`, and no
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

/// Refuses a buffer of another device than the one that owns `source`.
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
    Err(CoreError::OtherDevice {
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
    /// No words; `split` never returns it, as it has counted the slots.
    fn empty() -> Self {
        Self {
            words: &[],
            len: 0,
            dtype: DType::F32,
        }
    }

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
    /// As [`ReadSlice::empty`].
    fn empty() -> Self {
        Self {
            words: &mut [],
            len: 0,
            dtype: DType::F32,
        }
    }

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
        let (mut reads, mut writes) = (self.reads(), self.writes());
        (
            std::array::from_fn(|_| reads.next().unwrap_or_else(ReadSlice::empty)),
            std::array::from_fn(|_| writes.next().unwrap_or_else(WriteSlice::empty)),
        )
    }

    /// Returns the slices of words as [`CpuBindings::split`] does, however many there are.
    pub fn split_all(&mut self) -> (Vec<&[f32]>, Vec<&mut [f32]>) {
        (
            self.reads().map(|read| read.words).collect(),
            self.writes().map(|write| write.words).collect(),
        )
    }

    /// The read slots.
    fn reads(&self) -> impl Iterator<Item = ReadSlice<'_>> {
        let slots = self.slots.iter().filter(|slot| !slot.writes);
        slots.map(|slot| ReadSlice {
            // SAFETY: the launch holds the buffer's memory alive; `check_bindings` proved that
            // no written range overlaps it; the stream runs one launch at a time.
            words: unsafe { std::slice::from_raw_parts(slot.pointer, slot.words) },
            len: slot.len,
            dtype: slot.dtype,
        })
    }

    /// The written slots; callers have `&mut self` and visit each once.
    fn writes(&self) -> impl Iterator<Item = WriteSlice<'_>> {
        let slots = self.slots.iter().filter(|slot| slot.writes);
        slots.map(|slot| WriteSlice {
            // SAFETY: as above; the callers' `&mut self` keeps the slices of two calls apart.
            words: unsafe { std::slice::from_raw_parts_mut(slot.pointer, slot.words) },
            len: slot.len,
            dtype: slot.dtype,
        })
    }
}

/// A launch made ready for the CPU: its body, and its slots with the memory they point into.
pub(crate) struct CpuLaunch {
    pub name: &'static str,
    pub work: Work,
    slots: Vec<Slot>,
    body: CpuBody,
    /// Keeps the memory alive as long as the launch may run.
    _blocks: Vec<Arc<Block>>,
}

// SAFETY: the slots point into blocks that `_blocks` keeps alive; they are read and written
// only while the launch runs, one launch at a time.
unsafe impl Send for CpuLaunch {}
// SAFETY: as above.
unsafe impl Sync for CpuLaunch {}

impl CpuLaunch {
    /// Makes a launch ready, whose buffers have their places.
    pub fn new(
        name: &'static str,
        work: Work,
        views: &[View],
        body: CpuBody,
    ) -> Result<Self, CoreError> {
        let mut slots = Vec::with_capacity(views.len());
        let mut blocks = Vec::with_capacity(views.len());
        for view in views {
            let (block, start) = view.placed();
            let BlockMemory::Cpu(memory) = &block.memory else {
                let reason =
                    "a buffer of a Vulkan device, or of a recording that failed, on the CPU";
                return Err(CoreError::invalid(name, reason));
            };
            slots.push(Slot {
                pointer: memory.at(start),
                words: view.len,
                len: view.elements,
                dtype: view.dtype,
                writes: view.writes,
            });
            blocks.push(Arc::clone(block));
        }
        Ok(Self {
            name,
            work,
            slots,
            body,
            _blocks: blocks,
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
    // More than 2^48 workgroups are more than any device takes: the launch is refused.
    let y_groups = u32::try_from(y).unwrap_or(u32::MAX);
    [count.div_ceil(y) as u32, y_groups, 1]
}

/// The CPU body of a launch.
pub type CpuBody = Box<dyn Fn(&mut CpuBindings<'_>) + Send + Sync>;

impl View {
    /// The window of a binding.
    pub fn of(binding: &Binding<'_>) -> Self {
        let buffer = binding.buffer();
        Self {
            block: Arc::clone(buffer.block()),
            offset: buffer.offset(),
            len: buffer.words(),
            reads: binding.reads(),
            writes: binding.writes(),
            replaces: matches!(binding, Binding::Replace(_)),
            rewrites: matches!(binding, Binding::Rewrite(_)),
            elements: buffer.len(),
            dtype: buffer.dtype(),
        }
    }
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

    #[test]
    fn more_workgroups_than_any_device_takes_do_not_become_few() {
        for count in [1 << 48, (1 << 48) + 1, usize::MAX] {
            let [x, y, _] = groups_1d(count);
            assert!(x > 0 && y > 65_535, "{count}: {x} x {y}");
        }
    }
}
