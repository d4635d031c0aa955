//! The first few of each line on a GPU, selected piece by piece: `top.comp`.

use hlx_core::{Buffer, Device};

use super::radix::{Pairs, pairs_of};
use super::{Second, Sort};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::terms::PIECE;

shader!(top_shader, sort::top);

/// The most results of a line.
const MOST: usize = 128;

/// Elements of a line from which selecting is faster than sorting it.
const FROM: usize = 513;

/// Elements of a line whose places stay apart from those of no element.
const LONGEST: usize = 1 << 31;

/// Whether a sort's first results are selected.
pub(super) fn serves(device: &Device, sort: &Sort) -> bool {
    !device.is_cpu() && sort.k <= MOST && (FROM..=LONGEST).contains(&sort.terms.n)
}

/// Writes the first `k` of each line: those of each piece, then of what the pieces gave, until a line
/// is one piece.
pub(super) fn topk(
    device: &Device,
    name: &'static str,
    sort: &Sort,
    x: &Buffer,
    second: Second<'_>,
    places: &Buffer,
) -> Result<()> {
    let lines = sort.terms.n_results;
    let groups = (2 * sort.k).next_power_of_two().clamp(32, 256);
    let mut n = sort.terms.n;
    let mut from: Option<Pairs> = None;
    loop {
        let pieces = n.div_ceil(PIECE);
        let is_last = pieces == 1;
        let to = match (is_last, second.buffer()) {
            (true, Some(second)) => [second.clone(), places.clone()],
            // Nothing is written to the first one.
            (true, None) => [pairs_of(device, 1)?[0].clone(), places.clone()],
            (false, _) => pairs_of(device, lines * pieces * sort.k)?,
        };
        let [keys_from, places_from] = from
            .as_ref()
            .map_or([x, x], |[keys, places]| [keys, places]);
        let constants = constants!(0: sort.dtype.id(), sort.flip, from.is_none(),
            second.constant(), is_last, groups);
        Kernel::new(name, &top_shader::SHADER)
            .constants(constants)
            .reads([x])
            .writes(to.each_ref())
            .reads([keys_from, places_from])
            .launch_on_gpu(device, sort.push(n, pieces, 0), lines * pieces)?;
        if is_last {
            return Ok(());
        }
        (n, from) = (pieces * sort.k, Some(to));
    }
}
