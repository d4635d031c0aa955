//! Copies between the GPUs of ranks, by an installed NCCL.
//!
//! Both libraries, CUDA's driver and NCCL, are opened when the program runs. Device memory is another
//! library's, imported by a file descriptor; that a copy is done is told by a timeline semaphore, imported
//! likewise. NCCL's reductions have no fixed
//! order: only its point-to-point copies are used.

mod cuda;
mod library;

use std::fs::File;
use std::ops::Range;

use self::cuda::Cuda;
pub use self::cuda::{CudaMemory, CudaTimeline, Moment};
use self::library::{Communicator, Library};
use crate::{Group, Result};

/// What a rank has found for copies by NCCL, before it is known that all ranks have it.
pub struct NcclCandidate {
    library: Library,
    cuda: Cuda,
}

impl NcclCandidate {
    /// Opens the libraries and finds the GPU of this UUID.
    ///
    /// # Errors
    /// [`RankError::Start`](crate::RankError::Start): a library is not installed, or CUDA does not know the
    /// GPU.
    pub fn find(uuid: [u8; 16]) -> Result<Self> {
        let cuda = Cuda::open(uuid)?;
        let library = Library::open()?;
        Ok(Self { library, cuda })
    }

    /// Connects the ranks of a group; all of them call it.
    ///
    /// # Errors
    /// What NCCL reports, and a rank that is lost.
    pub fn connect(self, group: &Group) -> Result<Nccl> {
        let Self { library, cuda } = self;
        let id = match group.is_first() {
            true => library.unique_id()?.to_vec(),
            false => Vec::new(),
        };
        let id = group.from_first(&id)?;
        cuda.make_current()?;
        let communicator = library.connect(&id, group.rank(), group.n_ranks())?;
        Ok(Nccl { communicator, cuda })
    }
}

/// The connected ranks. It is not closed but ends with the process: closing it would wait for ranks that
/// may be lost.
pub struct Nccl {
    communicator: Communicator,
    cuda: Cuda,
}

/// A range of bytes of imported memory.
pub type Window<'a> = (&'a CudaMemory, Range<usize>);

impl Nccl {
    /// The library's name and version.
    pub fn name(&self) -> String {
        self.communicator.library.name()
    }

    /// Imports device memory of so many bytes, which has an allocation of its own.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn import_memory(&self, file: File, bytes: u64) -> Result<CudaMemory> {
        self.cuda.import_memory(file, bytes)
    }

    /// Imports a timeline semaphore.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn import_timeline(&self, file: File) -> Result<CudaTimeline> {
        self.cuda.import_timeline(file)
    }

    /// Lets the timeline have `value` when the copies so far are done.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn raise(&self, timeline: &CudaTimeline, value: u64) -> Result<()> {
        self.cuda.raise(timeline, value)
    }

    /// Sends the bytes of a window to a rank and receives those of another, both at once, after what was
    /// launched before; the other rank calls it with the lengths turned round. Does not wait.
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
        let windows = (place(out), place(into));
        self.cuda.make_current()?;
        self.communicator.swap(peer, windows, self.cuda.stream())
    }

    /// Notes when the copies so far are done.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn moment(&self) -> Result<Moment> {
        self.cuda.moment()
    }

    /// Notes this moment, whatever copies are under way.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn now(&self) -> Result<Moment> {
        self.cuda.now()
    }
}
