//! When the windows that a recording watches are final: a graph is cut there.

use crate::launch::Binding;
use crate::memory::Buffer;
use crate::view::{Access, View};

/// For each watched window, how many places must have run until it and all windows before it are final. Each
/// launch is given with its accesses and its place: its number, or its level.
pub(crate) fn final_after<'a>(
    watched: &[Buffer],
    launches: impl Iterator<Item = (&'a [Access], usize)> + Clone,
) -> Vec<usize> {
    let mut after = 0;
    let cut = |window: &Buffer| {
        let words = View::of(&Binding::Read(window)).access();
        let writes = launches.clone().filter(|(accesses, _)| {
            let mut accesses = accesses.iter();
            !window.is_empty() && accesses.any(|access| access.writes && access.conflicts(&words))
        });
        after = writes.map(|(_, place)| place + 1).fold(after, usize::max);
        after
    };
    watched.iter().map(cut).collect()
}
