//! Copies between the GPUs of ranks, by an installed NCCL.
//!
//! The library is opened when the program runs. Device memory is another library's, imported by a file
//! descriptor; that a copy is done is told by a timeline semaphore, imported likewise. NCCL's reductions have
//! no fixed order: only its point-to-point copies are used.

mod library;

use std::ops::Range;

use self::library::{Communicator, Library};
use crate::gpu::{CudaMemory, Gpu};
use crate::{Group, Result};

/// NCCL, opened, before it is known that all ranks have it.
pub struct NcclLibrary(Library);

impl NcclLibrary {
    /// Opens the library.
    ///
    /// # Errors
    /// [`RankError::Start`](crate::RankError::Start): it is not installed.
    pub fn open() -> Result<Self> {
        Library::open().map(Self)
    }

    /// Connects the ranks of a group, each with a GPU of its own; all of them call it.
    ///
    /// # Errors
    /// What NCCL reports, and a rank that is lost.
    pub fn connect(self, group: &Group, gpu: Gpu) -> Result<Nccl> {
        let Self(library) = self;
        let id = match group.is_first() {
            true => library.unique_id()?.to_vec(),
            false => Vec::new(),
        };
        let id = group.from_first(&id)?;
        gpu.make_current()?;
        let communicator = library.connect(&id, group.rank(), group.n_ranks())?;
        Ok(Nccl { communicator, gpu })
    }
}

/// The connected ranks. It is not closed but ends with the process: closing it would wait for ranks that
/// may be lost.
pub struct Nccl {
    communicator: Communicator,
    gpu: Gpu,
}

/// A range of bytes of memory that CUDA knows.
pub type Window<'a> = (&'a CudaMemory, Range<usize>);

impl Nccl {
    /// The library's name and version.
    pub fn name(&self) -> String {
        self.communicator.library.name()
    }

    /// The GPU whose stream the copies are launched on.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Sends the bytes of a window to a rank and receives those of another, both at once, after what was
    /// launched before; the other rank calls it with the lengths swapped. Does not wait.
    ///
    /// # Errors
    /// What NCCL reports.
    pub fn swap(
        &self,
        peer: usize,
        out: Option<Window<'_>>,
        into: Option<Window<'_>>,
    ) -> Result<()> {
        let place = |window: Option<Window<'_>>| {
            let (memory, bytes) = window?;
            Some((memory.address(&bytes)?, bytes.len()))
        };
        let (out, into) = (place(out), place(into));
        self.gpu.make_current()?;
        self.communicator.swap(peer, out, into, self.gpu.stream())
    }
}
