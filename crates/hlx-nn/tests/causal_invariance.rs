//! What must not change the bits of a causal model: micro-batches, tied weights among them, recording,
//! the device.

mod causal_common;

use causal_common::{TIME, gradient_in_passes, mixed, small, token, tokens, transformer, words};
use hlx_autograd::{BackwardPlan, Recompute, Tensor};
use hlx_core::{Arithmetic, Device};
use hlx_nn::{
    Architecture, CausalConfig, CausalInput, CausalLm, CausalModel, Mode, Model, Module, NnError,
    Positions, Result, Rotary,
};

const BATCH: usize = 8;

/// Computes the gradient of the batch in passes, and returns its digest.
fn gradient(model: &Model<CausalLm>, micro: usize, shards: usize) -> Result<String> {
    let mode = Mode::train(model.weights().device(), 77)?;
    gradient_in(model, &mode, micro, shards)
}

fn gradient_in(
    model: &Model<CausalLm>,
    mode: &Mode,
    micro: usize,
    shards: usize,
) -> Result<String> {
    let device = model.weights().device();
    let scale = Tensor::from_slice(device, &[1.0 / (BATCH * TIME) as f32], &[1])?;
    gradient_in_passes(model, [BATCH, micro, shards], |samples| {
        mode.set_counter(5, samples.start as u32)?;
        let logits = model.forward(&tokens(device, samples.clone(), 0)?, mode)?;
        Ok(logits.cross_entropy_scaled(&tokens(device, samples, 1)?, &scale, 0.0)?)
    })
}

#[test]
fn micro_batches_and_devices_give_the_same_gradient() -> Result<()> {
    for arithmetic in Arithmetic::EVERYWHERE {
        gradients_are_the_same(arithmetic)?;
    }
    Ok(())
}

fn gradients_are_the_same(arithmetic: Arithmetic) -> Result<()> {
    let whole_shards = arithmetic == Arithmetic::Integer;
    let mut expected = [None, None];
    for device in hlx_core::testing::own_devices_in(arithmetic) {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &mixed()))?;
        let sizes: &[usize] = if device.is_cpu() {
            &[8, 4, 2, 1, 8]
        } else {
            &[8, 1]
        };
        for (shards, expected) in [4, 1].into_iter().zip(&mut expected) {
            for &micro in sizes {
                let parts = BATCH / shards > micro;
                let left_out = micro < BATCH && parts && device.is_cpu() == (shards == 4);
                if left_out || (whole_shards && parts) {
                    continue;
                }
                let digest = gradient(&model, micro, shards)?;
                let expected = expected.get_or_insert_with(|| digest.clone());
                assert_eq!(
                    &digest,
                    expected,
                    "{micro} samples, {shards} shards, {:?}",
                    device.info()
                );
            }
        }
    }
    Ok(())
}

#[test]
fn recomputed_blocks_give_the_same_gradient() -> Result<()> {
    let config = CausalConfig {
        attention_dropout: 0.3,
        ..mixed()
    };
    let devices = Arithmetic::EVERYWHERE.map(hlx_core::testing::own_devices_in);
    for device in devices.into_iter().flatten() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &config))?;
        let saving = Mode::train(&device, 77)?;
        // The integer arithmetic takes whole shards.
        let of_one_shard = match device.arithmetic() {
            Arithmetic::Portable => (2, 1),
            _ => (8, 1),
        };
        for (micro, shards) in [(8, 4), of_one_shard] {
            let saved = gradient_in(&model, &saving, micro, shards)?;
            for recompute in [Recompute::All, Recompute::AllButAttention] {
                let recomputing = saving.clone().with_recomputation(Some(recompute));
                let again = gradient_in(&model, &recomputing, micro, shards)?;
                assert_eq!(
                    again,
                    saved,
                    "{recompute:?} {micro} {shards} {}",
                    device.info()
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_recorded_pass_gives_the_bits_of_a_launched_one() -> Result<()> {
    let devices = Arithmetic::EVERYWHERE.map(hlx_core::testing::own_devices_in);
    for device in devices.into_iter().flatten() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &mixed()))?;
        let weights = model.weights();
        weights.gradients()?;
        let mode = Mode::train(&device, 77)?;
        let (ids, targets) = (tokens(&device, 0..BATCH, 0)?, tokens(&device, 0..BATCH, 1)?);
        let scale = Tensor::from_slice(&device, &[0.01], &[1])?;
        // All passes draw the same masks.
        mode.set_counter(0, 0)?;
        let launch = || -> Result<()> {
            let logits = model.forward(&ids, &mode)?;
            let plan = BackwardPlan {
                shards: 4,
                ..BackwardPlan::default()
            };
            logits
                .cross_entropy_scaled(&targets, &scale, 0.0)?
                .backward_with(&plan)?;
            Ok(())
        };
        launch()?;
        let expected = weights.digest_of(&[("", weights.gradients()?)])?;
        let (graph, ()) = device.record::<_, NnError>(launch)?;
        device.fill(weights.gradients()?, f32::NAN.to_bits())?;
        for _ in 0..2 {
            graph.replay()?;
            let found = weights.digest_of(&[("", weights.gradients()?)])?;
            assert_eq!(found, expected, "{:?}", device.info());
        }
    }
    Ok(())
}

/// Experts with biases, here of 0, compute every token; without, their own tokens alone.
#[test]
fn experts_over_all_tokens_have_the_logits_of_experts_over_their_own() -> Result<()> {
    let biased = CausalConfig {
        feed_forward_bias: true,
        ..mixed()
    };
    let devices = Arithmetic::EVERYWHERE.map(hlx_core::testing::own_devices_in);
    for device in devices.into_iter().flatten() {
        let own = Model::new(&device, 3, |b| CausalLm::new(b, &mixed()))?;
        let all = Model::new(&device, 3, |b| CausalLm::new(b, &biased))?;
        for parameter in own.weights().parameters() {
            let (values, name) = (parameter.tensor()?.to_vec::<f32>()?, parameter.name());
            let other = all.weights().get(name).expect("there").tensor()?;
            device.upload(&other.buffer()?, &values)?;
        }
        let ids = tokens(&device, 0..BATCH, 0)?;
        let mode = Mode::eval();
        let logits = [own, all].map(|model| words(&model.forward(&ids, &mode)?));
        let [own, all] = logits;
        assert_eq!(own?, all?);
    }
    Ok(())
}

/// The sum of the two uses of a tied embedding is that of two models whose tables are apart.
#[test]
fn a_tied_embedding_has_the_sum_of_both_gradients() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let tied = CausalConfig {
        tied_output: true,
        ..small("llama2")
    };
    let free = CausalConfig {
        tied_output: false,
        ..tied.clone()
    };
    let tied = Model::new(&device, 3, |b| CausalLm::new(b, &tied))?;
    let free = Model::new(&device, 3, |b| CausalLm::new(b, &free))?;
    let table = tied.weights().parameters()[0].tensor()?.to_vec::<f32>()?;
    let output = free
        .weights()
        .get("lm_head.weight")
        .expect("free")
        .tensor()?;
    device.upload(&output.buffer()?, &table)?;
    for (micro, shards) in [(8, 1), (8, 4), (2, 4), (1, 1)] {
        gradient(&tied, micro, shards)?;
        gradient(&free, micro, shards)?;
        let of = |model: &Model<CausalLm>, name: &str| -> Result<Vec<f32>> {
            let gradient = model.weights().get(name).expect("there").tensor()?.grad();
            Ok(gradient.expect("reached").to_vec::<f32>()?)
        };
        let sum = of(&free, "model.embed_tokens.weight")?
            .into_iter()
            .zip(of(&free, "lm_head.weight")?)
            .map(|(embedding, output)| (embedding + output).to_bits());
        let found = of(&tied, "model.embed_tokens.weight")?;
        assert!(
            found.iter().map(|x| x.to_bits()).eq(sum),
            "{micro} {shards}"
        );
    }
    Ok(())
}

#[test]
fn parallel_blocks_and_sinusoidal_positions_are_differentiable_on_every_device() -> Result<()> {
    let config = CausalConfig {
        architecture: Architecture::Llama,
        parallel: true,
        positions: Positions::Sinusoidal,
        attention_out_bias: true,
        ..small("gpt2")
    };
    let partial = CausalConfig {
        positions: Positions::Rotary(Rotary {
            width: Some(4),
            ..Rotary::plain(100.0)
        }),
        ..config.clone()
    };
    for config in [config, partial] {
        let mut expected = None;
        for device in hlx_core::testing::own_devices() {
            let model = Model::new(&device, 3, |b| CausalLm::new(b, &config))?;
            let digest = gradient(&model, 8, 4)?;
            assert_eq!(expected.get_or_insert_with(|| digest.clone()), &digest);
        }
    }
    Ok(())
}

/// Rows of two documents each, and the documents by themselves.
fn check_documents(device: &Device, model: &dyn CausalModel) -> Result<()> {
    let mode = Mode::eval();
    let cut = 4;
    let start = |at| if at < cut { 0 } else { cut as u32 };
    let starts: Vec<u32> = (0..TIME).map(start).collect();
    let starts = Tensor::from_slice::<u32>(device, &starts.repeat(2), &[2, TIME])?;
    let ids = tokens(device, 0..2, 0)?;
    let input = CausalInput {
        documents: Some(&starts),
        ..CausalInput::new(&ids)
    };
    let packed = model.logits(&input, &mode)?;
    for (start, length) in [(0, cut), (cut, TIME - cut)] {
        let alone = ids
            .narrow(1, start, length)?
            .contiguous()?
            .with_samples(0)?;
        let packed = packed.narrow(1, start, length)?;
        assert_eq!(
            words(&packed)?,
            words(&model.forward(&alone, &mode)?)?,
            "{start}"
        );
    }
    Ok(())
}

#[test]
fn packed_documents_have_the_bits_of_documents_alone() -> Result<()> {
    let devices = Arithmetic::EVERYWHERE.map(hlx_core::testing::own_devices_in);
    for device in devices.into_iter().flatten() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &small("qwen3")))?;
        check_documents(&device, model.module())?;
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &transformer().into()))?;
        check_documents(&device, model.module())?;
    }
    Ok(())
}

/// Computes the gradient of rows of documents, one pass a row, in one chain; returns its digest.
fn gradient_of_rows<M: CausalModel>(
    model: &Model<M>,
    rows: &[&[usize]],
    recompute: Option<Recompute>,
) -> Result<String> {
    let weights = model.weights();
    let device = weights.device();
    let scale = Tensor::from_slice(device, &[0.1], &[1])?;
    let mode = Mode::train(device, 0)?.with_recomputation(recompute);
    let mut first = 0;
    for (row_idx, documents) in rows.iter().enumerate() {
        let time: usize = documents.iter().sum();
        let (mut starts, mut at) = (Vec::new(), 0);
        for &length in *documents {
            starts.resize(at + length, at as u32);
            at += length;
        }
        let ids = |shift: usize| -> Result<Tensor> {
            let ids: Vec<u32> = (0..time).map(|at| token(0, first + at + shift)).collect();
            Ok(Tensor::from_slice::<u32>(device, &ids, &[1, time])?.with_samples(0)?)
        };
        let (tokens, starts) = (
            ids(0)?,
            Tensor::from_slice::<u32>(device, &starts, &[1, time])?,
        );
        let input = CausalInput {
            documents: (documents.len() > 1).then_some(&starts),
            ..CausalInput::new(&tokens)
        };
        let loss = model
            .logits(&input, &mode)?
            .cross_entropy_scaled(&ids(1)?, &scale, 0.0)?;
        loss.backward_with(&BackwardPlan {
            accumulate: row_idx > 0,
            whole_batch: false,
            ..BackwardPlan::default()
        })?;
        first += time;
    }
    weights.digest_of(&[("", weights.gradients()?)])
}

#[test]
fn packed_documents_have_the_gradient_of_documents_one_after_the_other() -> Result<()> {
    let free = CausalConfig {
        tied_output: false,
        ..small("qwen3")
    };
    let all = Some(Recompute::All);
    for device in hlx_core::testing::own_devices() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &free))?;
        let gradient = |rows: &[&[usize]], again| gradient_of_rows(&model, rows, again);
        let packed = gradient(&[&[4, 33, 5]], None)?;
        assert_eq!(packed, gradient(&[&[4], &[33], &[5]], None)?);
        assert_eq!(packed, gradient(&[&[4, 33, 5]], all)?);
        let most = Some(Recompute::AllButAttention);
        assert_eq!(packed, gradient(&[&[4, 33, 5]], most)?);
        assert_ne!(packed, gradient(&[&[42]], None)?);
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &transformer().into()))?;
        let gradient = |rows: &[&[usize]], again| gradient_of_rows(&model, rows, again);
        let packed = gradient(&[&[4, 33, 5]], None)?;
        assert_eq!(packed, gradient(&[&[4, 33], &[5]], None)?);
        assert_eq!(packed, gradient(&[&[4, 33, 5]], all)?);
    }
    Ok(())
}
