//! The processes that train one model (ranks): bytes between them, and the end of all when one ends.
//!
//! A [`Group`] is what a rank holds. Its collective calls (gather, barrier, agreement) are written once,
//! on top of a [`Transport`], which swaps bytes between two ranks. [`SharedMemory`] is the transport of
//! the ranks of one machine, [`Mpi`] that of ranks anywhere. Nothing here knows tensors.

mod error;
#[cfg(target_os = "linux")]
mod gpu;
mod group;
mod links;
#[cfg(unix)]
mod mpi;
#[cfg(target_os = "linux")]
mod nccl;
mod pause;
#[cfg(target_os = "linux")]
mod peers;
mod secret;
mod secure;
mod shared;
mod sockets;
pub mod testing;
mod text;
mod transport;
mod watch;

pub use error::RankError;
#[cfg(target_os = "linux")]
pub use gpu::{CudaMemory, CudaTimeline, Gpu, Moment, Uuid};
pub use group::{GATHERED, Group, Refusal};
#[cfg(unix)]
pub use mpi::Mpi;
#[cfg(target_os = "linux")]
pub use nccl::{Nccl, NcclLibrary, Window};
#[cfg(target_os = "linux")]
pub use peers::{Lines, PeerWindow, Peers};
pub use secret::Secret;
pub use shared::SharedMemory;
pub use sockets::Sockets;
pub use transport::{Transport, host_name};

/// The result of a call between ranks.
pub type Result<T, E = RankError> = std::result::Result<T, E>;
