//! Places of a cache that are filled and freed while others grow: every sequence has the bits of its own whole passes.

mod causal_common;

use causal_common::{small, token, words};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::{Arithmetic, Device};
use hlx_nn::{
    CausalInput, CausalLm, CausalModel, KvCache, Mode, Model, Module, Result, Slots, likeliest,
};

const CAPACITY: usize = 24;

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

/// Appends tokens of a sample to what a cache of one sequence holds.
fn read(model: &CausalLm, cache: &mut KvCache, sample: usize, n: usize) -> Result<()> {
    let held: usize = cache.lengths().iter().sum();
    let device = model.device()?;
    let new = &ids_of(sample, held + n)[held..];
    let ids = Tensor::from_slice::<u32>(&device, new, &[1, n])?;
    model.logits_cached(&ids, &[n], None, cache).map(drop)
}

/// Samples in places, a token of each a step; some come, some go, one is a copy of another's beginning.
fn check_slots(device: &Device, model: &CausalLm) -> Result<()> {
    let mut slots = Slots::new(model, device, 5, CAPACITY)?;
    let mut prompt = model.cache(device, 1, CAPACITY)?;
    let mut going: Vec<(usize, usize, usize)> = Vec::new();
    let mut fill = |slots: &mut Slots, place: usize, sample: usize, n: usize| -> Result<_> {
        prompt.truncate(&[0])?;
        read(model, &mut prompt, sample, n - 1)?;
        read(model, &mut prompt, sample, 1)?;
        slots.fill(place, &prompt)?;
        Ok((place, sample, n))
    };
    going.push(fill(&mut slots, 0, 0, 4)?);
    for step in 0..9 {
        match step {
            1 => going.push(fill(&mut slots, 3, 1, 7)?),
            2 => going.push(fill(&mut slots, 1, 2, 2)?),
            // Place 0 is freed, and its sequence is forgotten.
            4 => {
                slots.free(0)?;
                going.retain(|&(place, ..)| place != 0);
            }
            // The beginning of place 3 goes on in place 4, and place 3 stays as it is while it has no token.
            5 => {
                let mut copy = model.cache(device, 1, CAPACITY)?;
                slots.copy_to(&mut copy, 3, 5)?;
                read(model, &mut copy, 1, 1)?;
                slots.fill(4, &copy)?;
                going.push((4, 1, 6));
            }
            7 => going.push(fill(&mut slots, 0, 3, 5)?),
            _ => {}
        }
        let mut ids = vec![None; 5];
        for one in &mut going {
            let (place, sample, n) = *one;
            if step == 6 && place == 3 {
                continue;
            }
            ids[place] = Some(token(sample, n));
            one.2 += 1;
        }
        let n_ids = ids
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        ids.truncate(n_ids);
        let logits = match step {
            3 | 8 => None,
            _ => Some(slots.logits(model, &ids)?),
        };
        let tokens = match logits {
            None => Some(slots.likeliest(model, &ids)?.to_vec::<u32>()?),
            Some(_) => None,
        };
        for &(place, sample, n) in &going {
            assert_eq!(slots.lengths()[place], n, "place {place} in step {step}");
            if ids.get(place).copied().flatten().is_none() {
                continue;
            }
            let alone = whole(device, model, sample, n)?;
            if let Some(logits) = &logits {
                let found = words(&logits.narrow(0, place, 1)?)?;
                assert_eq!(found, words(&alone)?, "place {place} in step {step}");
            }
            if let Some(tokens) = &tokens {
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
        let devices = Arithmetic::ALL.map(hlx_core::testing::own_devices_in);
        for device in devices.into_iter().flatten() {
            for preset in ["gemma3", "qwen3"] {
                let model = Model::new(&device, 3, |b| CausalLm::new(b, &small(preset)))?;
                check_slots(&device, model.module())?;
            }
        }
        Ok(())
    })
}

/// A full place without a token gives up its last one, and nothing else.
#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() -> Result<()> {
    let device = hlx_core::testing::cpu().expect("opens");
    let model = Model::new(&device, 3, |b| CausalLm::new(b, &small("qwen3")))?;
    let model = model.module();
    no_grad(|| {
        assert!(Slots::new(model, &device, 0, 4).is_err());
        let mut slots = Slots::new(model, &device, 2, 4)?;
        let mut prompt = model.cache(&device, 1, 4)?;
        read(model, &mut prompt, 0, 4)?;
        slots.fill(0, &prompt)?;
        prompt.truncate(&[2])?;
        slots.fill(1, &prompt)?;
        let reason = |error: hlx_nn::NnError| error.to_string();
        let full = slots.logits(model, &[Some(1), Some(2)]).expect_err("full");
        assert!(reason(full).contains("place 0 has 4 tokens, room is for 4"));
        assert_eq!(slots.lengths(), [4, 2]);
        let many = slots.logits(model, &[Some(1); 3]).expect_err("too many");
        assert!(reason(many).contains("3 places, and there are 2"));
        let other = model.cache(&device, 1, 5)?;
        assert!(slots.fill(1, &other).is_err(), "another capacity");
        assert!(slots.fill(2, &prompt).is_err());
        assert!(slots.copy_to(&mut prompt, 1, 3).is_err(), "it has 2 tokens");
        assert_eq!(slots.logits(model, &[None, None])?.shape()[0], 0);
        slots.logits(model, &[None, Some(token(0, 2))])?;
        assert_eq!(slots.lengths(), [3, 3]);
        let logits = slots.logits(model, &[Some(token(0, 3)), Some(token(0, 3))])?;
        let both = words(&logits)?;
        let (first, second) = both.split_at(both.len() / 2);
        assert_eq!(first, second);
        assert_eq!(first, words(&whole(&device, model, 0, 4)?)?);
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
