//! Logits behind the tokens of answers, computed by one pass over prompts and answers, many of them together.

use anyhow::Result;
use hlx_autograd::{Tensor, no_grad};
use hlx_core::Device;
use hlx_nn::{CausalInput, CausalLm, CausalModel, Mode};

/// Tokens of a pass at most, padding included; a longer sequence is read in pieces.
const TOKENS: usize = 4096;
/// Sequences of a pass at most.
const SEQUENCES: usize = 64;
/// Logits of a pass at most: 512 MiB.
const LOGITS: usize = 1 << 27;

/// A sequence, and behind which of its tokens logits are wanted: from one on to the last.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub tokens: Vec<u32>,
    pub from: usize,
}

impl Wanted {
    fn n_rows(&self) -> usize {
        self.tokens.len() - self.from
    }
}

/// What gets the logits \[rows, V\] of sequences with their numbers, those of each piece by piece in order.
pub(super) type Take<'a> = &'a mut dyn FnMut(&[(usize, &[f32])]);

/// Computes what is wanted, and gives it to `take`. Neighbours in a pass change no bit.
pub(super) fn logits_behind(model: &CausalLm, all: &[Wanted], take: Take<'_>) -> Result<()> {
    let device = model.device()?;
    let most_rows = (LOGITS / model.vocabulary()).max(1);
    // Those of one length together, so that little is padding.
    let mut order: Vec<usize> = (0..all.len()).filter(|&at| all[at].n_rows() > 0).collect();
    order.sort_by_key(|&at| (all[at].tokens.len(), at));
    let mut rest = &order[..];
    while !rest.is_empty() {
        let mut n_rows = 0;
        let mut fits = |(n, &at): (usize, &usize)| {
            n_rows += all[at].n_rows();
            (n + 1) * all[at].tokens.len() <= TOKENS && n_rows <= most_rows && n < SEQUENCES
        };
        let n = rest.iter().enumerate().take_while(|&one| fits(one)).count();
        let (front, behind) = rest.split_at(n.max(1));
        let alone = |at: usize, take: Take<'_>| {
            no_grad(|| in_pieces(model, &device, (at, &all[at]), most_rows, take))
        };
        match n {
            0 => alone(front[0], take)?,
            _ => match no_grad(|| together(model, &device, front, all, take)) {
                // A device that has no memory for all of them may have it for one; nothing has been taken then.
                Err(_) if n > 1 => front.iter().try_for_each(|&at| alone(at, take))?,
                done => done?,
            },
        }
        rest = behind;
    }
    Ok(())
}

/// One pass over several sequences, padded on the right, where no token of theirs looks.
fn together(
    model: &CausalLm,
    device: &Device,
    which: &[usize],
    all: &[Wanted],
    take: Take<'_>,
) -> Result<()> {
    let time = which
        .iter()
        .map(|&at| all[at].tokens.len())
        .max()
        .unwrap_or(0);
    let (mut ids, mut rows) = (Vec::with_capacity(which.len() * time), Vec::new());
    for (row, &at) in which.iter().enumerate() {
        let Wanted { tokens, from } = &all[at];
        ids.extend_from_slice(tokens);
        ids.resize((row + 1) * time, 0);
        rows.extend((*from..tokens.len()).map(|t| (row * time + t) as u32));
    }
    let ids = Tensor::from_slice::<u32>(device, &ids, &[which.len(), time])?.with_samples(0)?;
    let wanted = Tensor::from_slice::<u32>(device, &rows, &[rows.len()])?;
    let input = CausalInput {
        rows: Some(&wanted),
        ..CausalInput::new(&ids)
    };
    let logits = model.logits(&input, &Mode::eval())?.to_vec::<f32>()?;
    let mut rest = &logits[..];
    let parts = which.iter().map(|&at| {
        let (mine, behind) = rest.split_at(all[at].n_rows() * model.vocabulary());
        rest = behind;
        (at, mine)
    });
    take(&parts.collect::<Vec<_>>());
    Ok(())
}

/// A sequence that is too long for one pass, in pieces with a cache.
fn in_pieces(
    model: &CausalLm,
    device: &Device,
    (number, wanted): (usize, &Wanted),
    most_rows: usize,
    take: Take<'_>,
) -> Result<()> {
    let Wanted { tokens, from } = wanted;
    let mut cache = model.cache(device, 1, tokens.len())?;
    let mut begin = 0;
    while begin < tokens.len() {
        // The prompt's pieces need but one row each.
        let end = match begin < *from {
            true => (begin + TOKENS).min(*from),
            false => (begin + TOKENS.min(most_rows)).min(tokens.len()),
        };
        let piece = &tokens[begin..end];
        let ids = Tensor::from_slice::<u32>(device, piece, &[1, piece.len()])?.with_samples(0)?;
        let last = Tensor::from_slice::<u32>(device, &[piece.len() as u32 - 1], &[1])?;
        let rows = (begin < *from).then_some(&last);
        let logits = model.logits_cached(&ids, &[piece.len()], rows, &mut cache)?;
        if begin >= *from {
            take(&[(number, &logits.to_vec::<f32>()?)]);
        }
        begin = end;
    }
    Ok(())
}
