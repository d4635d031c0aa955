//! The key/value cache: what it gives has the bits of whole sequences, and what it has no place for is refused.

mod causal_common;

use causal_common::{TIME, small, token, tokens, transformer, words};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::{Arithmetic, Device};
use hlx_nn::{CausalInput, CausalLm, CausalModel, KvCache, Mode, Model, Module, Result, TokenStep};

/// Prompts of several lengths are read at once, and go on token by token, as if each were alone and
/// computed anew.
fn check_cache(device: &Device, model: &dyn CausalModel, lengths: [usize; 3]) -> Result<()> {
    let mode = Mode::eval();
    let whole = |sample: usize, n: usize| -> Result<Vec<u32>> {
        let ids: Vec<u32> = (0..n).map(|time| token(sample, time)).collect();
        let ids = Tensor::from_slice::<u32>(device, &ids, &[1, n])?;
        let last = Tensor::from_slice::<u32>(device, &[n as u32 - 1], &[1])?;
        let input = CausalInput {
            rows: Some(&last),
            ..CausalInput::new(&ids)
        };
        words(&model.logits(&input, &mode)?)
    };
    let mut cache = model.cache(device, lengths.len(), 40)?;
    let rows: Vec<u32> = (0..3)
        .map(|row| (row * TIME + lengths[row] - 1) as u32)
        .collect();
    let rows = Tensor::from_slice::<u32>(device, &rows, &[3])?;
    let logits =
        model.logits_cached(&tokens(device, 0..3, 0)?, &lengths, Some(&rows), &mut cache)?;
    assert_eq!(cache.lengths(), lengths);
    for (sample, length) in lengths.into_iter().enumerate() {
        assert_eq!(
            words(&logits.narrow(0, sample, 1)?)?,
            whole(sample, length)?
        );
    }
    // The second ends; the others go on, launched and recorded, and then the last one alone.
    cache.retain(&[0, 2])?;
    let mut recorded = TokenStep::new(model);
    let mut going = vec![0, 2];
    for step in 0..7 {
        if step == 5 {
            cache.retain(&[1])?;
            going = vec![2];
        }
        let next = going
            .iter()
            .map(|&sample| token(sample, lengths[sample] + step));
        let next: Vec<u32> = next.collect();
        let logits = match step {
            0 | 3 => {
                let ids = Tensor::from_slice::<u32>(device, &next, &[next.len(), 1])?;
                model.logits_cached(&ids, &vec![1; next.len()], None, &mut cache)?
            }
            _ => recorded.logits(&next, &mut cache)?,
        };
        for (row, &sample) in going.iter().enumerate() {
            let found = words(&logits.narrow(0, row, 1)?)?;
            assert_eq!(
                found,
                whole(sample, lengths[sample] + step + 1)?,
                "step {step}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_cache_gives_the_bits_of_whole_sequences() -> Result<()> {
    no_grad(|| {
        let devices = Arithmetic::EVERYWHERE.map(hlx_core::testing::own_devices_in);
        for device in devices.into_iter().flatten() {
            for preset in ["gemma3", "qwen2", "qwen3"] {
                let model = Model::new(&device, 3, |b| CausalLm::new(b, &small(preset)))?;
                check_cache(&device, model.module(), [7, 3, TIME])?;
            }
            let model = Model::new(&device, 3, |b| CausalLm::new(b, &transformer().into()))?;
            // Rows that are longer than every prompt.
            check_cache(&device, model.module(), [7, 3, 5])?;
        }
        Ok(())
    })
}

#[test]
fn tokens_that_a_cache_has_no_place_for_are_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let model = Model::new(&device, 3, |b| CausalLm::new(b, &small("llama3")))?;
    let mut cache = model.cache(&device, 2, 12)?;
    let ids = tokens(&device, 0..2, 0)?;
    let mut refused = |new: &[usize]| {
        let result = model.logits_cached(&ids, new, None, &mut cache);
        result.expect_err("refused").to_string()
    };
    let text = refused(&[3]);
    let expected = "key/value cache: 2 rows of ids and 1 counts, expected 2 of the sequences";
    assert_eq!(text, expected);
    let text = refused(&[3, 12]);
    assert_eq!(text, "key/value cache: sequence 1 takes 12 of 11 tokens");
    no_grad(|| model.logits_cached(&ids, &[3, 11], None, &mut cache))?;
    let error = model
        .logits_cached(&ids, &[2, 2], None, &mut cache)
        .expect_err("full");
    let expected = "key/value cache: sequence 1 gets 13 tokens, room is for 12";
    assert_eq!(error.to_string(), expected);
    let mut step = TokenStep::new(&*model);
    step.logits(&[1, 1], &mut cache)?;
    assert_eq!(cache.lengths(), [4, 12]);
    let mut refused = |ids: &[u32], cache: &mut KvCache| {
        let result = step.logits(ids, cache);
        result.expect_err("refused").to_string()
    };
    let text = refused(&[1, 1], &mut cache);
    let expected = "key/value cache: sequence 1 gets 13 tokens, room is for 12";
    assert_eq!(text, expected);
    let text = refused(&[1], &mut cache);
    let expected = "key/value cache: 1 rows of ids and 1 counts, expected 2 of the sequences";
    assert_eq!(text, expected);
    let long = Tensor::from_slice::<u32>(&device, &[1; 65], &[1, 65])?;
    let error = model.forward(&long, &Mode::eval()).expect_err("too long");
    let expected = "causal model: ids has shape [1, 65], expected [batch, time] with at most 64 \
                    positions";
    assert_eq!(error.to_string(), expected);
    Ok(())
}

#[test]
fn a_cache_of_the_other_arithmetic_is_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let [portable, integer] = [Arithmetic::Portable, Arithmetic::Integer]
        .map(|arithmetic| device.with_arithmetic(arithmetic));
    let refused = |own: &Device, other: &Device| -> Result<String> {
        let model = Model::new(own, 3, |b| CausalLm::new(b, &small("llama3")))?;
        let mut cache = model.cache(other, 1, 12)?;
        let ids = Tensor::from_slice::<u32>(own, &[1], &[1, 1])?;
        let result = no_grad(|| model.logits_cached(&ids, &[1], None, &mut cache));
        Ok(result.expect_err("refused").to_string())
    };
    assert_eq!(
        refused(&portable, &integer)?,
        "key/value cache: keys and values are integers, expected a pass in `integer` that drops nothing"
    );
    assert!(refused(&integer, &portable)?.starts_with("attention: "));
    Ok(())
}
