//! The balance loss of experts over rows of different lengths: padding is in no sum and changes no bit.

mod causal_common;

use causal_common::{TIME, gradient_in_passes, mixed, tokens, with_balance};
use hlx_autograd::{IGNORE_INDEX, Recompute, Tensor};
use hlx_core::Device;
use hlx_nn::{
    CausalConfig, CausalInput, CausalLm, CausalModel, ExpertsConfig, Mode, Model, Module, Result,
};

const LENGTHS: [usize; 8] = [3, 7, 1, 5, 0, 6, 2, 4];
const SHARDS: usize = 4;

fn model(device: &Device) -> Result<Model<CausalLm>> {
    let config = CausalConfig {
        vocabulary: 37,
        width: 24,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        head_width: 8,
        max_positions: 32,
        experts: Some(ExpertsConfig {
            n_experts: 5,
            per_token: 2,
            width: 12,
            renormalised: true,
            balance_coefficient: 0.01,
            dense_layers: Vec::new(),
        }),
        ..CausalConfig::preset("qwen3_moe").expect("a preset")
    };
    Model::new(device, 3, |b| CausalLm::new(b, &config))
}

fn token(sample: usize, at: usize) -> u32 {
    ((sample * 31 + at * 17 + sample * at) % 37) as u32
}

/// Samples as rows of `time` tokens, padded on the right by the id 9: ids, targets and lengths.
fn rows(device: &Device, samples: &[usize], time: usize) -> Result<[Tensor; 3]> {
    let laid = |shift: usize, padding: u32| -> Result<Tensor> {
        let row = |&sample: &usize| {
            let token = move |at| match at < LENGTHS[sample] {
                true => token(sample, at + shift),
                false => padding,
            };
            (0..time).map(token)
        };
        let words: Vec<u32> = samples.iter().flat_map(row).collect();
        Ok(Tensor::from_slice::<u32>(device, &words, &[samples.len(), time])?.with_samples(0)?)
    };
    let lengths = samples.iter().map(|&sample| LENGTHS[sample] as u32);
    let lengths =
        Tensor::from_slice::<u32>(device, &lengths.collect::<Vec<_>>(), &[samples.len()])?;
    Ok([laid(0, 9)?, laid(1, IGNORE_INDEX)?, lengths])
}

/// The balance losses of samples, each a shard.
fn balances(model: &Model<CausalLm>, samples: &[usize], time: usize) -> Result<Vec<f32>> {
    let device = model.weights().device();
    let [ids, _, lengths] = rows(device, samples, time)?;
    let input = CausalInput {
        lengths: Some(&lengths),
        ..CausalInput::new(&ids)
    };
    let mode = Mode::train(device, 7)?.with_shards(samples.len(), false);
    let (_, balance) = model.logits_and_balance(&input, &mode)?;
    Ok(balance.expect("experts").to_vec::<f32>()?)
}

#[test]
fn a_padded_row_has_the_loss_of_the_row_by_itself() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let model = model(device)?;
        let all: Vec<usize> = (0..LENGTHS.len()).collect();
        let together = balances(&model, &all, 9)?;
        assert_eq!(balances(&model, &all, 31)?, together);
        for (sample, &found) in together.iter().enumerate() {
            let length = LENGTHS[sample];
            if length == 0 {
                assert_eq!(found, 0.0);
                continue;
            }
            let [ids, ..] = rows(device, &[sample], length)?;
            let mode = Mode::train(device, 7)?;
            let (_, alone) = model.logits_and_balance(&CausalInput::new(&ids), &mode)?;
            let alone = alone.expect("experts").to_vec::<f32>()?[0];
            // Its factor is rounded once, not thrice.
            assert!(
                (found - alone).abs() <= 3e-7 * alone,
                "{sample}: {found} {alone}"
            );
        }
        let [ids, _, lengths] = rows(device, &[0, 1], 9)?;
        let short = lengths.narrow(0, 0, 1)?;
        let input = CausalInput {
            lengths: Some(&short),
            ..CausalInput::new(&ids)
        };
        let error = model.logits_and_balance(&input, &Mode::train(device, 7)?);
        assert_eq!(
            error.expect_err("refused").to_string(),
            "causal model: lengths has shape [1], expected [2]"
        );
    }
    Ok(())
}

/// The samples as documents of one packed row of `time` tokens, padded on the right: ids, where the documents
/// begin, and the row's length.
fn packed(device: &Device, samples: &[usize], time: usize) -> Result<[Tensor; 3]> {
    let (mut ids, mut starts) = (Vec::new(), Vec::new());
    for &sample in samples {
        starts.resize(ids.len() + LENGTHS[sample], ids.len() as u32);
        ids.extend((0..LENGTHS[sample]).map(|at| token(sample, at)));
    }
    let length = ids.len();
    ids.resize(time, 9);
    // Each place of padding is a document of its own.
    starts.extend(length as u32..time as u32);
    Ok([
        Tensor::from_slice::<u32>(device, &ids, &[1, time])?.with_samples(0)?,
        Tensor::from_slice::<u32>(device, &starts, &[1, time])?,
        Tensor::from_slice::<u32>(device, &[length as u32], &[1])?,
    ])
}

#[test]
fn a_packed_row_with_padding_has_the_loss_of_its_documents_alone() -> Result<()> {
    let samples = [1, 3, 6];
    for device in hlx_core::testing::devices() {
        let model = model(device)?;
        let mode = Mode::train(device, 7)?;
        let balance = |input: &CausalInput<'_>| -> Result<f32> {
            let (_, balance) = model.logits_and_balance(input, &mode)?;
            Ok(balance.expect("experts").to_vec::<f32>()?[0])
        };
        let of_row = |time: usize, counts_padding: bool| {
            let [ids, starts, length] = packed(device, &samples, time)?;
            balance(&CausalInput {
                documents: Some(&starts),
                lengths: (!counts_padding).then_some(&length),
                ..CausalInput::new(&ids)
            })
        };
        let full = of_row(14, false)?;
        for time in [15, 31] {
            assert_eq!(of_row(time, false)?, full, "{time}");
            assert_ne!(of_row(time, true)?, full, "{time}");
        }
        // The documents are rows of one shard here, so that the sums have another order.
        let [ids, _, lengths] = rows(device, &samples, 7)?;
        let alone = balance(&CausalInput {
            lengths: Some(&lengths),
            ..CausalInput::new(&ids)
        })?;
        assert!((full - alone).abs() <= 1e-6 * alone, "{full} {alone}");
    }
    Ok(())
}

/// The digest of the gradients of a batch in micro-batches, each padded to its longest row and `more`.
fn gradient(model: &Model<CausalLm>, micro: usize, more: usize) -> Result<String> {
    let device = model.weights().device();
    let batch = LENGTHS.len();
    let n_targets: usize = LENGTHS.iter().sum();
    let scale = Tensor::from_slice(device, &[1.0 / n_targets as f32], &[1])?;
    let mode = Mode::train(device, 7)?;
    let mode = mode.with_shards(micro * SHARDS / batch, false);
    gradient_in_passes(model, [batch, micro, SHARDS], |samples| {
        let samples: Vec<usize> = samples.collect();
        let longest = samples.iter().map(|&sample| LENGTHS[sample]).max();
        let [ids, targets, lengths] = rows(device, &samples, longest.unwrap_or(1) + more)?;
        let input = CausalInput {
            lengths: Some(&lengths),
            ..CausalInput::new(&ids)
        };
        let (logits, balance) = model.logits_and_balance(&input, &mode)?;
        let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
        with_balance(&loss, &balance.expect("experts"), SHARDS)
    })
}

#[test]
fn gradients_do_not_depend_on_how_much_padding_there_is() -> Result<()> {
    let mut expected = None;
    for device in hlx_core::testing::own_devices() {
        let model = model(&device)?;
        for (micro, more) in [(8, 0), (4, 0), (2, 9)] {
            let digest = gradient(&model, micro, more)?;
            let expected = expected.get_or_insert_with(|| digest.clone());
            assert_eq!(&digest, expected, "{micro} {more} {}", device.info());
        }
    }
    Ok(())
}

/// Computes the gradient of cross-entropy, and of the balance loss where it is wanted, of four shards in passes.
fn gradient_of_shards(
    model: &Model<CausalLm>,
    micro: usize,
    recompute: Option<Recompute>,
    is_balanced: bool,
) -> Result<String> {
    const BATCH: usize = 8;
    let device = model.weights().device();
    let scale = Tensor::from_slice(device, &[1.0 / (BATCH * TIME) as f32], &[1])?;
    let mode = Mode::train(device, 77)?
        .with_shards(micro * SHARDS / BATCH, micro < BATCH / SHARDS)
        .with_recomputation(recompute);
    gradient_in_passes(model, [BATCH, micro, SHARDS], |samples| {
        mode.set_counter(5, samples.start as u32)?;
        let ids = tokens(device, samples.clone(), 0)?;
        let targets = tokens(device, samples, 1)?;
        if !is_balanced {
            let logits = model.forward(&ids, &mode)?;
            return Ok(logits.cross_entropy_scaled(&targets, &scale, 0.0)?);
        }
        let (logits, balance) = model.logits_and_balance(&CausalInput::new(&ids), &mode)?;
        let balance = balance.expect("experts");
        assert_eq!(balance.shape(), [micro * SHARDS / BATCH]);
        let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
        with_balance(&loss, &balance, SHARDS)
    })
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
    for device in hlx_core::testing::own_devices() {
        let model = Model::new(&device, 3, |b| CausalLm::new(b, &config))?;
        for (micro, recompute) in [(8, None), (2, None), (4, Some(Recompute::AllButAttention))] {
            let digest = gradient_of_shards(&model, micro, recompute, true)?;
            let expected = expected.get_or_insert_with(|| digest.clone());
            assert_eq!(&digest, expected, "{micro} {recompute:?} {}", device.info());
        }
        assert_ne!(expected, Some(gradient_of_shards(&model, 8, None, false)?));
        let error = gradient_of_shards(&model, 1, None, true).expect_err("half a shard");
        let reason =
            "micro-batches: the balance loss of experts needs passes that hold whole shards";
        assert_eq!(error.to_string(), reason);
    }
    Ok(())
}
