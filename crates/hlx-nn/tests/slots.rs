//! Sequences in the pages of a pool that come and go while others grow: every one has the bits of its own whole passes.

mod causal_common;

use causal_common::{small, token, words};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::{Arithmetic, Device};
use hlx_nn::{
    CausalInput, CausalLm, CausalModel, Mode, Model, Module, Piece, Result, Slots, likeliest,
};

const CAPACITY: usize = 64;

fn ids_of(sample: usize, n: usize) -> Vec<u32> {
    (0..n).map(|time| token(sample, time)).collect()
}

/// The logits behind the first `n` tokens of a sample, computed anew.
fn whole(device: &Device, model: &CausalLm, sample: usize, n: usize) -> Result<Tensor> {
    let ids = Tensor::from_slice::<u32>(device, &ids_of(sample, n), &[1, n])?;
    let last = Tensor::from_slice::<u32>(device, &[n as u32 - 1], &[1])?;
    let input = CausalInput {
        rows: Some(&last),
        ..CausalInput::new(&ids)
    };
    model.logits(&input, &Mode::eval())
}

/// A sequence of a sample's tokens.
struct Going {
    place: usize,
    sample: usize,
    held: usize,
    pages: Vec<u32>,
}

impl Going {
    fn new(place: usize, sample: usize, pages: &[u32]) -> Self {
        Self {
            place,
            sample,
            held: 0,
            pages: pages.to_vec(),
        }
    }

    /// The next `n` tokens.
    fn next(&self, n: usize) -> Vec<u32> {
        ids_of(self.sample, self.held + n).split_off(self.held)
    }

    fn piece<'a>(&'a self, ids: &'a [u32]) -> Piece<'a> {
        Piece {
            ids,
            held: self.held,
            pages: &self.pages,
        }
    }
}

/// Reads tokens of several sequences in one pass, and compares the logits behind each one's last.
fn read(
    device: &Device,
    model: &CausalLm,
    slots: &Slots,
    both: &mut [(&mut Going, usize)],
) -> Result<()> {
    let ids: Vec<_> = both.iter().map(|(one, n)| one.next(*n)).collect();
    let pieces = both.iter().zip(&ids).map(|((one, _), ids)| one.piece(ids));
    let pieces: Vec<_> = pieces.collect();
    let ends = both.iter().scan(0, |end, (_, n)| {
        *end += *n as u32;
        Some(*end - 1)
    });
    let logits = slots.read(model, &pieces, &ends.collect::<Vec<_>>())?;
    for (row, (one, n)) in both.iter_mut().enumerate() {
        one.held += *n;
        let found = words(&logits.narrow(0, row, 1)?)?;
        let alone = whole(device, model, one.sample, one.held)?;
        assert_eq!(found, words(&alone)?, "sample {}", one.sample);
    }
    Ok(())
}

/// Samples in places, a token of each a step; some come, some go, one continues pages of another.
fn check_slots(device: &Device, model: &CausalLm) -> Result<()> {
    let mut slots = Slots::new(model, device, [5, CAPACITY], 12)?;
    let mut going: Vec<Going> = Vec::new();
    let mut first = Going::new(0, 0, &[11, 4, 7]);
    let mut second = Going::new(3, 1, &[9, 0, 1]);
    read(device, model, &slots, &mut [(&mut first, 4)])?;
    // Three sequences in a pass, of which one goes on in another page, and two get as many tokens.
    let mut third = Going::new(1, 2, &[3, 5]);
    let all = &mut [(&mut third, 1), (&mut first, 30), (&mut second, 30)];
    read(device, model, &slots, all)?;
    let all = &mut [(&mut second, 1), (&mut first, 1), (&mut third, 2)];
    read(device, model, &slots, all)?;
    going.extend([first, third]);
    for step in 0..9 {
        match step {
            1 => read(device, model, &slots, &mut [(&mut second, 3)])?,
            2 => going.push(std::mem::replace(&mut second, Going::new(4, 1, &[9, 2]))),
            // Place 0 is freed, and others get its pages.
            4 => going.retain(|one| one.place != 0),
            // The first page of place 3 is that of place 4, too, which goes on in pages of its own.
            5 => {
                second.held = 32;
                read(device, model, &slots, &mut [(&mut second, 1)])?;
                going.push(std::mem::replace(&mut second, Going::new(0, 3, &[11, 4])));
            }
            7 => {
                let mut last = std::mem::replace(&mut second, Going::new(0, 0, &[]));
                read(device, model, &slots, &mut [(&mut last, 5)])?;
                going.push(last);
            }
            _ => {}
        }
        let ids: Vec<_> = going.iter().map(|one| one.next(1)).collect();
        let mut tokens = vec![None; 5];
        for (one, ids) in going.iter().zip(&ids) {
            if step != 6 || one.place != 3 {
                tokens[one.place] = Some(one.piece(ids));
            }
        }
        let n = tokens
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        tokens.truncate(n);
        let logits = match step {
            3 | 8 => None,
            _ => Some(slots.logits(model, &tokens)?),
        };
        let likeliest_tokens = match logits {
            None => Some(slots.likeliest(model, &tokens)?.to_vec::<u32>()?),
            Some(_) => None,
        };
        let appended: Vec<bool> = (0..5)
            .map(|place| tokens.get(place).is_some_and(Option::is_some))
            .collect();
        for one in going.iter_mut().filter(|one| appended[one.place]) {
            one.held += 1;
            let place = one.place;
            let alone = whole(device, model, one.sample, one.held)?;
            if let Some(logits) = &logits {
                let found = words(&logits.narrow(0, place, 1)?)?;
                assert_eq!(found, words(&alone)?, "place {place} in step {step}");
            }
            if let Some(tokens) = &likeliest_tokens {
                let expected = likeliest(&alone)?.to_vec::<u32>()?;
                assert_eq!(tokens[place], expected[0], "place {place} in step {step}");
            }
        }
    }
    assert!(slots.n_recorded() <= 6, "{}", slots.n_recorded());
    Ok(())
}

#[test]
fn places_give_the_bits_of_whole_sequences() -> Result<()> {
    no_grad(|| {
        let devices = Arithmetic::EVERYWHERE.map(hlx_core::testing::own_devices_in);
        for device in devices.into_iter().flatten() {
            for preset in ["gemma3", "qwen3"] {
                let model = Model::new(&device, 3, |b| CausalLm::new(b, &small(preset)))?;
                check_slots(&device, model.module())?;
            }
        }
        Ok(())
    })
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() -> Result<()> {
    let device = hlx_core::testing::cpu().expect("opens");
    let model = Model::new(&device, 3, |b| CausalLm::new(b, &small("qwen3")))?;
    let model = model.module();
    no_grad(|| {
        for (sizes, n_pages) in [([0, 4], 1), ([1, 0], 1), ([1, 4], 0)] {
            assert!(Slots::new(model, &device, sizes, n_pages).is_err());
        }
        let mut slots = Slots::new(model, &device, [2, 40], 2)?;
        let mut one = Going::new(0, 0, &[1, 0]);
        read(&device, model, &slots, &mut [(&mut one, 39)])?;
        let (ids, next) = (one.next(1), one.next(2));
        let good = one.piece(&ids);
        let reason = |found: Result<Tensor>| found.expect_err("refused").to_string();
        let mut refused = |piece: Piece<'_>, expected: &str| {
            let found = reason(slots.read(model, &[piece], &[0]));
            assert!(found.contains(expected), "{found}");
            let found = reason(slots.logits(model, &[Some(good), Some(piece)]));
            assert!(found.contains(expected), "{found}");
        };
        let full = "2 tokens behind 39 of a sequence, room is for 40";
        refused(one.piece(&next), full);
        refused(one.piece(&[]), "0 tokens behind 39");
        let few = Piece {
            pages: &[1],
            ..good
        };
        refused(few, "40 tokens of a sequence need 2 pages, and it has 1");
        let beyond = Piece {
            pages: &[1, 2],
            ..good
        };
        refused(beyond, "page 2 of 2");
        let many = reason(slots.logits(model, &[Some(good); 3]));
        assert!(many.contains("3 places, and there are 2"), "{many}");
        let two = Piece {
            held: 38,
            ids: &next,
            ..good
        };
        let two = reason(slots.logits(model, &[Some(two)]));
        assert!(two.contains("2 tokens of a sequence in a step"), "{two}");
        assert!(slots.read(model, &[], &[]).is_err());
        assert!(slots.read(model, &[good], &[1]).is_err());
        assert_eq!(slots.logits(model, &[None, None])?.shape()[0], 0);
        let logits = words(&slots.logits(model, &[Some(good)])?)?;
        assert_eq!(logits, words(&whole(&device, model, 0, 40)?)?);
        Ok(())
    })
}

/// The hidden states are what the projection reads: of a free projection without a bias the logits are their product.
#[test]
fn hidden_states_are_what_the_projection_reads() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &small("qwen3")))?;
        let ids = Tensor::from_slice::<u32>(&device, &ids_of(0, 6), &[2, 3])?;
        let hidden = model.hidden(&CausalInput::new(&ids), &Mode::eval())?;
        assert_eq!(hidden.shape(), [2, 3, model.config().width]);
        let tied = model.config().tied_output;
        let name = if tied {
            "model.embed_tokens.weight"
        } else {
            "lm_head.weight"
        };
        let table = model
            .weights()
            .get(name)
            .expect("the projection")
            .tensor()?;
        let logits = hidden.linear(&table, None)?;
        let expected = model.forward(&ids, &Mode::eval())?;
        assert_eq!(words(&logits)?, words(&expected)?);
    }
    Ok(())
}
