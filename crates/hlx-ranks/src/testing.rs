//! What tests of several crates need.

mod readers;

use std::sync::atomic::{AtomicU16, Ordering};

pub use self::readers::{memory_bytes, read_memory, read_wire};

use crate::links::listener::Listener;

/// A free port below the system's range of ephemeral ports, so that no other test binds it by port 0; `None`
/// if all are taken.
pub fn free_port() -> Option<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 20_000) as u16;
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    ports
        .take(2_000)
        .find(|&port| Listener::everywhere(port).is_ok())
}
