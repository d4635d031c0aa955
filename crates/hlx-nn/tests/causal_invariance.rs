//! What must not change the bits of a causal model: micro-batches, tied weights among them, recording,
//! the device; and what its cache must give.

use hlx_autograd::{BackwardPlan, Recompute, Tensor, no_grad};
use hlx_core::Context;
use hlx_nn::{
    Architecture, CausalConfig, CausalInput, CausalLm, CausalModel, ExpertsConfig, ForwardContext,
    GradientTree, KvCache, MicroBatchPlan, Model, Module, NnError, Positions, Result, Rotary,
    TokenStep, Transformer, TransformerConfig, cross_entropy,
};

const BATCH: usize = 8;
const TIME: usize = 11;
const VOCABULARY: usize = 29;

/// Small sizes in the shape of a preset.
fn small(preset: &str) -> CausalConfig {
    CausalConfig {
        vocabulary: VOCABULARY,
        width: 24,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        head_width: 8,
        feed_forward_width: 40,
        max_positions: 64,
        window: Some(5),
        full_layers: vec![1],
        ..CausalConfig::preset(preset).expect("a preset")
    }
}

/// Tied, with experts, dropout, windows and all else that has an order of its own.
fn mixed() -> CausalConfig {
    CausalConfig {
        experts: Some(ExpertsConfig {
            n_experts: 5,
            per_token: 2,
            width: 12,
            renormalised: true,
            balance_coefficient: 0.01,
            dense_layers: vec![0],
        }),
        dropout: 0.2,
        ..small("gemma3")
    }
}

fn token(sample: usize, time: usize) -> u32 {
    ((sample * 31 + time * 17 + sample * time) % VOCABULARY) as u32
}

fn tokens(ctx: &Context, samples: std::ops::Range<usize>, shift: usize) -> Result<Tensor> {
    let shape = [samples.len(), TIME];
    let ids = samples.flat_map(|sample| (0..TIME).map(move |time| token(sample, time + shift)));
    Ok(Tensor::ids(ctx, &ids.collect::<Vec<_>>(), &shape)?.with_samples(0)?)
}

fn words(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(tensor
        .to_vec()?
        .iter()
        .map(|value| value.to_bits())
        .collect())
}

/// Computes the gradient of the batch in passes, and returns its digest.
fn gradient(model: &Model<CausalLm>, micro: usize, shards: usize) -> Result<String> {
    let context = ForwardContext::train(model.weights().context(), 77)?;
    gradient_in(model, &context, micro, shards)
}

fn gradient_in(
    model: &Model<CausalLm>,
    context: &ForwardContext,
    micro: usize,
    shards: usize,
) -> Result<String> {
    let weights = model.weights();
    let ctx = weights.context();
    let plan = MicroBatchPlan::new(BATCH, micro, shards)?;
    let mut tree = GradientTree::new(weights, &plan)?;
    let scale = Tensor::from_slice(ctx, &[1.0 / (BATCH * TIME) as f32], &[1])?;
    for pass in &plan.passes {
        let samples = pass.first_sample..pass.first_sample + micro;
        context.set_counter(5, pass.first_sample as u32)?;
        let logits = model.forward(&tokens(ctx, samples.clone(), 0)?, context)?;
        let loss = cross_entropy(&logits, &tokens(ctx, samples, 1)?, &scale, 0.0)?;
        loss.backward_with(&pass.plan)?;
        if let Some(level) = pass.level {
            tree.push(weights, level)?;
        }
    }
    tree.finish(weights)?;
    weights.check_gradients()?;
    weights.digest_of(&[("", weights.gradients()?)])
}

#[test]
fn micro_batches_and_devices_give_the_same_gradient() -> Result<()> {
    let mut expected = [None, None];
    for ctx in hlx_core::testing::own_contexts() {
        let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &mixed()))?;
        let sizes: &[usize] = if ctx.is_cpu() {
            &[8, 4, 2, 1, 8]
        } else {
            &[8, 1]
        };
        for (shards, expected) in [4, 1].into_iter().zip(&mut expected) {
            for &micro in sizes {
                if micro < BATCH && BATCH / shards > micro && ctx.is_cpu() == (shards == 4) {
                    continue;
                }
                let digest = gradient(&model, micro, shards)?;
                let expected = expected.get_or_insert_with(|| digest.clone());
                assert_eq!(
                    &digest,
                    expected,
                    "{micro} samples, {shards} shards, {:?}",
                    ctx.info()
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
    for ctx in hlx_core::testing::own_contexts() {
        let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &config))?;
        let saving = ForwardContext::train(&ctx, 77)?;
        for (micro, shards) in [(8, 4), (2, 1)] {
            let saved = gradient_in(&model, &saving, micro, shards)?;
            for recompute in [Recompute::All, Recompute::AllButAttention] {
                let recomputing = saving.clone().with_recomputation(Some(recompute));
                let again = gradient_in(&model, &recomputing, micro, shards)?;
                assert_eq!(
                    again,
                    saved,
                    "{recompute:?} {micro} {shards} {}",
                    ctx.info()
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_recorded_pass_gives_the_bits_of_a_launched_one() -> Result<()> {
    for ctx in hlx_core::testing::own_contexts() {
        let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &mixed()))?;
        let weights = model.weights();
        weights.gradients()?;
        let context = ForwardContext::train(&ctx, 77)?;
        let (ids, targets) = (tokens(&ctx, 0..BATCH, 0)?, tokens(&ctx, 0..BATCH, 1)?);
        let scale = Tensor::from_slice(&ctx, &[0.01], &[1])?;
        let launch = || -> Result<()> {
            let logits = model.forward(&ids, &context)?;
            let plan = BackwardPlan {
                shards: 4,
                ..BackwardPlan::default()
            };
            cross_entropy(&logits, &targets, &scale, 0.0)?.backward_with(&plan)?;
            Ok(())
        };
        launch()?;
        let expected = weights.digest_of(&[("", weights.gradients()?)])?;
        let (graph, ()) = ctx.record::<_, NnError>(launch)?;
        ctx.fill(weights.gradients()?, f32::NAN.to_bits())?;
        for _ in 0..2 {
            graph.replay()?;
            let found = weights.digest_of(&[("", weights.gradients()?)])?;
            assert_eq!(found, expected, "{:?}", ctx.info());
        }
    }
    Ok(())
}

/// Computes the gradient of cross-entropy and balance loss, both of four shards, in passes.
fn balanced_gradient(
    model: &Model<CausalLm>,
    micro: usize,
    recompute: Option<Recompute>,
) -> Result<String> {
    const SHARDS: usize = 4;
    let weights = model.weights();
    let ctx = weights.context();
    let plan = MicroBatchPlan::new(BATCH, micro, SHARDS)?;
    let mut tree = GradientTree::new(weights, &plan)?;
    let scale = Tensor::from_slice(ctx, &[1.0 / (BATCH * TIME) as f32], &[1])?;
    let context = ForwardContext::train(ctx, 77)?
        .with_shards(micro * SHARDS / BATCH, micro < BATCH / SHARDS)
        .with_recomputation(recompute);
    for pass in &plan.passes {
        let samples = pass.first_sample..pass.first_sample + micro;
        context.set_counter(5, pass.first_sample as u32)?;
        let ids = tokens(ctx, samples.clone(), 0)?;
        let (logits, balance) = model.logits_and_balance(&CausalInput::new(&ids), &context)?;
        let balance = balance.expect("experts");
        assert_eq!(balance.shape(), [pass.plan.shards]);
        let loss = cross_entropy(&logits, &tokens(ctx, samples, 1)?, &scale, 0.0)?;
        let balance = balance.sum()?.scale(0.5 / SHARDS as f32)?;
        let balance = balance.reshape(loss.shape())?;
        loss.add(&balance)?.backward_with(&pass.plan)?;
        if let Some(level) = pass.level {
            tree.push(weights, level)?;
        }
    }
    tree.finish(weights)?;
    weights.digest_of(&[("", weights.gradients()?)])
}

#[test]
fn the_balance_loss_has_the_same_gradient_in_any_whole_shards() -> Result<()> {
    let config = CausalConfig {
        experts: mixed().experts.map(|experts| ExpertsConfig {
            dense_layers: Vec::new(),
            ..experts
        }),
        ..mixed()
    };
    let mut expected = None;
    for ctx in hlx_core::testing::own_contexts() {
        let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &config))?;
        for (micro, recompute) in [(8, None), (2, None), (4, Some(Recompute::AllButAttention))] {
            let digest = balanced_gradient(&model, micro, recompute)?;
            let expected = expected.get_or_insert_with(|| digest.clone());
            assert_eq!(&digest, expected, "{micro} {recompute:?} {}", ctx.info());
        }
        assert_ne!(expected, Some(gradient(&model, 8, 4)?));
        let error = balanced_gradient(&model, 1, None).expect_err("half a shard");
        let reason =
            "micro-batches: the balance loss of experts needs passes that hold whole shards";
        assert_eq!(error.to_string(), reason);
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
    for ctx in hlx_core::testing::own_contexts() {
        let own = Model::new(&ctx, 3, |b| CausalLm::new(b, &mixed()))?;
        let all = Model::new(&ctx, 3, |b| CausalLm::new(b, &biased))?;
        for parameter in own.weights().parameters() {
            let (values, name) = (parameter.tensor()?.to_vec()?, parameter.name());
            let other = all.weights().get(name).expect("there").tensor()?;
            ctx.upload_f32(&other.buffer()?, &values)?;
        }
        let ids = tokens(&ctx, 0..BATCH, 0)?;
        let context = ForwardContext::eval();
        let logits = [own, all].map(|model| words(&model.forward(&ids, &context)?));
        let [own, all] = logits;
        assert_eq!(own?, all?);
    }
    Ok(())
}

/// The sum of the two uses of a tied embedding is that of two models whose tables are apart.
#[test]
fn a_tied_embedding_has_the_sum_of_both_gradients() -> Result<()> {
    let ctx = hlx_core::testing::cpu()?;
    let tied = CausalConfig {
        tied_output: true,
        ..small("llama2")
    };
    let free = CausalConfig {
        tied_output: false,
        ..tied.clone()
    };
    let tied = Model::new(&ctx, 3, |b| CausalLm::new(b, &tied))?;
    let free = Model::new(&ctx, 3, |b| CausalLm::new(b, &free))?;
    let table = tied.weights().parameters()[0].tensor()?.to_vec()?;
    let output = free
        .weights()
        .get("lm_head.weight")
        .expect("free")
        .tensor()?;
    ctx.upload_f32(&output.buffer()?, &table)?;
    for (micro, shards) in [(8, 1), (8, 4), (2, 4), (1, 1)] {
        gradient(&tied, micro, shards)?;
        gradient(&free, micro, shards)?;
        let of = |model: &Model<CausalLm>, name: &str| -> Result<Vec<f32>> {
            let gradient = model.weights().get(name).expect("there").tensor()?.grad();
            Ok(gradient.expect("reached").to_vec()?)
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
        architecture: Architecture::Custom,
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
        for ctx in hlx_core::testing::own_contexts() {
            let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &config))?;
            let digest = gradient(&model, 8, 4)?;
            assert_eq!(expected.get_or_insert_with(|| digest.clone()), &digest);
        }
    }
    Ok(())
}

/// Rows of two documents each, and the documents by themselves.
fn check_documents(ctx: &Context, model: &dyn CausalModel) -> Result<()> {
    let context = ForwardContext::eval();
    let cut = 4;
    let start = |at| if at < cut { 0 } else { cut as u32 };
    let starts: Vec<u32> = (0..TIME).map(start).collect();
    let starts = Tensor::ids(ctx, &starts.repeat(2), &[2, TIME])?;
    let ids = tokens(ctx, 0..2, 0)?;
    let input = CausalInput {
        documents: Some(&starts),
        ..CausalInput::new(&ids)
    };
    let packed = model.logits(&input, &context)?;
    for (start, length) in [(0, cut), (cut, TIME - cut)] {
        let alone = ids
            .narrow(1, start, length)?
            .contiguous()?
            .with_samples(0)?;
        let packed = packed.narrow(1, start, length)?;
        assert_eq!(
            words(&packed)?,
            words(&model.forward(&alone, &context)?)?,
            "{start}"
        );
    }
    Ok(())
}

#[test]
fn packed_documents_have_the_bits_of_documents_alone() -> Result<()> {
    for ctx in hlx_core::testing::own_contexts() {
        let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &small("qwen3")))?;
        check_documents(&ctx, model.module())?;
        let model = Model::new(&ctx, 3, |b| Transformer::new(b, &transformer()))?;
        check_documents(&ctx, model.module())?;
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
    let ctx = weights.context();
    let scale = Tensor::from_slice(ctx, &[0.1], &[1])?;
    let context = ForwardContext::train(ctx, 0)?.with_recomputation(recompute);
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
            Ok(Tensor::ids(ctx, &ids, &[1, time])?.with_samples(0)?)
        };
        let (tokens, starts) = (ids(0)?, Tensor::ids(ctx, &starts, &[1, time])?);
        let input = CausalInput {
            documents: (documents.len() > 1).then_some(&starts),
            ..CausalInput::new(&tokens)
        };
        let loss = cross_entropy(&model.logits(&input, &context)?, &ids(1)?, &scale, 0.0)?;
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
    for ctx in hlx_core::testing::own_contexts() {
        let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &free))?;
        let gradient = |rows: &[&[usize]], again| gradient_of_rows(&model, rows, again);
        let packed = gradient(&[&[4, 33, 5]], None)?;
        assert_eq!(packed, gradient(&[&[4], &[33], &[5]], None)?);
        assert_eq!(packed, gradient(&[&[4, 33, 5]], all)?);
        let most = Some(Recompute::AllButAttention);
        assert_eq!(packed, gradient(&[&[4, 33, 5]], most)?);
        assert_ne!(packed, gradient(&[&[42]], None)?);
        let model = Model::new(&ctx, 3, |b| Transformer::new(b, &transformer()))?;
        let gradient = |rows: &[&[usize]], again| gradient_of_rows(&model, rows, again);
        let packed = gradient(&[&[4, 33, 5]], None)?;
        assert_eq!(packed, gradient(&[&[4, 33], &[5]], None)?);
        assert_eq!(packed, gradient(&[&[4, 33, 5]], all)?);
    }
    Ok(())
}

fn transformer() -> TransformerConfig {
    TransformerConfig {
        vocabulary: VOCABULARY,
        width: 24,
        n_layers: 2,
        n_heads: 3,
        feed_forward_width: 40,
        positions: 64,
        dropout: 0.0,
        attention_dropout: 0.0,
    }
}

/// Prompts of several lengths are read at once, and go on token by token, as if each were alone and
/// computed anew.
fn check_cache(ctx: &Context, model: &dyn CausalModel, lengths: [usize; 3]) -> Result<()> {
    let context = ForwardContext::eval();
    let whole = |sample: usize, n: usize| -> Result<Vec<u32>> {
        let ids: Vec<u32> = (0..n).map(|time| token(sample, time)).collect();
        let ids = Tensor::ids(ctx, &ids, &[1, n])?;
        let last = Tensor::ids(ctx, &[n as u32 - 1], &[1])?;
        let input = CausalInput {
            rows: Some(&last),
            ..CausalInput::new(&ids)
        };
        words(&model.logits(&input, &context)?)
    };
    let mut cache = model.cache(ctx, lengths.len(), 40)?;
    let rows: Vec<u32> = (0..3)
        .map(|row| (row * TIME + lengths[row] - 1) as u32)
        .collect();
    let rows = Tensor::ids(ctx, &rows, &[3])?;
    let logits = model.logits_cached(&tokens(ctx, 0..3, 0)?, &lengths, Some(&rows), &mut cache)?;
    assert_eq!(cache.lengths(), lengths);
    for (sample, length) in lengths.into_iter().enumerate() {
        assert_eq!(
            words(&logits.narrow(0, sample, 1)?)?,
            whole(sample, length)?
        );
    }
    // The second ends; the others go on, launched and recorded, and then the last one alone.
    cache.keep(&[0, 2])?;
    let mut recorded = TokenStep::new(model);
    let mut going = vec![0, 2];
    for step in 0..7 {
        if step == 5 {
            cache.keep(&[1])?;
            going = vec![2];
        }
        let next = going
            .iter()
            .map(|&sample| token(sample, lengths[sample] + step));
        let next: Vec<u32> = next.collect();
        let logits = match step {
            0 | 3 => {
                let ids = Tensor::ids(ctx, &next, &[next.len(), 1])?;
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
        for ctx in hlx_core::testing::own_contexts() {
            for preset in ["gemma3", "qwen2", "qwen3"] {
                let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &small(preset)))?;
                check_cache(&ctx, model.module(), [7, 3, TIME])?;
            }
            let model = Model::new(&ctx, 3, |b| Transformer::new(b, &transformer()))?;
            // Rows that are longer than every prompt.
            check_cache(&ctx, model.module(), [7, 3, 5])?;
        }
        Ok(())
    })
}

#[test]
fn tokens_that_a_cache_has_no_place_for_are_refused() -> Result<()> {
    let ctx = hlx_core::testing::cpu()?;
    let model = Model::new(&ctx, 3, |b| CausalLm::new(b, &small("llama3")))?;
    let mut cache = model.cache(&ctx, 2, 12)?;
    let ids = tokens(&ctx, 0..2, 0)?;
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
    let long = Tensor::ids(&ctx, &[1; 65], &[1, 65])?;
    let error = model
        .forward(&long, &ForwardContext::eval())
        .expect_err("too long");
    let expected = "causal model: ids has shape [1, 65], expected [batch, time] with at most 64 \
                    positions";
    assert_eq!(error.to_string(), expected);
    Ok(())
}
