//! The backward pass as a whole: accumulation, order, shards, recording.

use std::sync::Arc;

use hlx_autograd::{AutogradError, BackwardPlan, Result, Tensor, no_grad};
use hlx_core::{Device, Graph};

fn series(seed: usize, n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| (((i + 1) * (2 * seed + 37)) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

fn plan(shards: usize, accumulate: bool) -> BackwardPlan {
    BackwardPlan {
        shards,
        accumulate,
        whole_batch: false,
    }
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    let values = tensor.to_vec::<f32>().expect("downloads");
    values.iter().map(|value| value.to_bits()).collect()
}

/// A network with every kind of parameter: embedding, norm, linear with bias.
struct Network {
    device: Device,
    table: Tensor,
    gain: Tensor,
    shift: Tensor,
    weight: Tensor,
    bias: Tensor,
}

const TIME: usize = 3;
const WIDTH: usize = 6;

impl Network {
    fn new(device: &Device) -> Result<Self> {
        let leaf = |seed, shape: &[usize]| -> Result<Tensor> {
            let values = series(seed, shape.iter().product());
            Ok(Tensor::from_slice(device, &values, shape)?.with_gradient())
        };
        Ok(Self {
            device: device.clone(),
            table: leaf(1, &[5, WIDTH])?,
            gain: leaf(2, &[WIDTH])?,
            shift: leaf(3, &[WIDTH])?,
            weight: leaf(4, &[4, WIDTH])?,
            bias: leaf(5, &[4])?,
        })
    }

    fn inputs(&self, samples: std::ops::Range<usize>) -> Result<(Tensor, Tensor)> {
        let batch = samples.len();
        let ids: Vec<u32> = (samples.start * TIME..samples.end * TIME)
            .map(|i| (i * 7 % 5) as u32)
            .collect();
        let targets: Vec<u32> = ids.iter().map(|id| id % 4).collect();
        Ok((
            Tensor::from_slice::<u32>(&self.device, &ids, &[batch, TIME])?.with_samples(0)?,
            Tensor::from_slice::<u32>(&self.device, &targets, &[batch, TIME])?,
        ))
    }

    fn loss(&self, (ids, targets): &(Tensor, Tensor), scale: &Tensor) -> Result<Tensor> {
        ids.embedding(&self.table)?
            .layer_norm(&self.gain, &self.shift, 1e-5)?
            .gelu()?
            .linear(&self.weight, Some(&self.bias))?
            .cross_entropy_scaled(targets, scale, 0.0)
    }

    /// Runs a part of the batch of 8.
    fn pass(&self, samples: std::ops::Range<usize>, plan: &BackwardPlan) -> Result<()> {
        let scale = Tensor::from_slice(&self.device, &[1.0 / 24.0], &[1])?;
        self.loss(&self.inputs(samples)?, &scale)?
            .backward_with(plan)
    }

    fn gradients(&self) -> Vec<Vec<f32>> {
        [
            &self.table,
            &self.gain,
            &self.shift,
            &self.weight,
            &self.bias,
        ]
        .map(|leaf| {
            let gradient = leaf.grad().expect("the leaf has a gradient");
            gradient.to_vec::<f32>().expect("downloads")
        })
        .to_vec()
    }
}

fn assert_same_bits(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    let words = |rows: &[Vec<f32>]| -> Vec<Vec<u32>> {
        let row = |row: &Vec<f32>| row.iter().map(|value| value.to_bits()).collect();
        rows.iter().map(row).collect()
    };
    assert_eq!(words(found), words(expected));
}

fn add(a: &[Vec<f32>], b: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let row = |(a, b): (&Vec<f32>, &Vec<f32>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
    a.iter().zip(b).map(row).collect()
}

#[test]
fn shards_are_chains_added_pairwise() -> Result<()> {
    let network = Network::new(&hlx_core::testing::cpu()?)?;
    network.pass(0..8, &plan(4, false))?;
    let whole = network.gradients();
    let shards: Vec<_> = (0..4)
        .map(|shard| {
            network.pass(2 * shard..2 * shard + 2, &plan(1, false))?;
            Ok(network.gradients())
        })
        .collect::<Result<_>>()?;
    let tree = add(&add(&shards[0], &shards[1]), &add(&shards[2], &shards[3]));
    assert_same_bits(&whole, &tree);
    network.pass(0..8, &plan(1, false))?;
    assert_ne!(
        network.gradients(),
        whole,
        "the sums do depend on the shards"
    );
    Ok(())
}

/// A large table takes the shards' sum from one kernel, unless the pass adds to what is there.
#[test]
fn a_large_table_has_the_same_bits_as_its_shards() -> Result<()> {
    const VOCABULARY: usize = 40_000;
    let device = hlx_core::testing::cpu()?;
    let values = series(7, 2 * VOCABULARY);
    let table = Tensor::from_slice(&device, &values, &[VOCABULARY, 2])?.with_gradient();
    let ids: Vec<u32> = (0..64).map(|i| i * i * 13 % 90).collect();
    let pass = |rows: std::ops::Range<usize>, plan: &BackwardPlan| -> Result<Vec<f32>> {
        let n = rows.len();
        let y = Tensor::from_slice::<u32>(&device, &ids[rows.clone()], &[n])?
            .with_samples(0)?
            .embedding(&table)?;
        let weights = series(9, 2 * ids.len());
        let weights = &weights[2 * rows.start..2 * rows.end];
        let weights = Tensor::from_slice(&device, weights, &[n, 2])?;
        y.mul(&weights)?.sum()?.backward_with(plan)?;
        table.grad().expect("has a gradient").to_vec()
    };
    let whole = pass(0..64, &plan(4, false))?;
    let twice: Vec<f32> = whole.iter().map(|x| x + x).collect();
    let shards = (0..4)
        .map(|shard| Ok(vec![pass(16 * shard..16 * shard + 16, &plan(1, false))?]))
        .collect::<Result<Vec<_>>>()?;
    let tree = add(&add(&shards[0], &shards[1]), &add(&shards[2], &shards[3]));
    assert_same_bits(&[whole], &tree);
    pass(0..64, &plan(4, false))?;
    assert_same_bits(&[pass(0..64, &plan(4, true))?], &[twice]);
    Ok(())
}

#[test]
fn an_accumulating_pass_continues_the_chain() -> Result<()> {
    let network = Network::new(&hlx_core::testing::cpu()?)?;
    network.pass(0..8, &plan(1, false))?;
    let whole = network.gradients();
    network.pass(0..3, &plan(1, false))?;
    network.pass(3..7, &plan(1, true))?;
    network.pass(7..8, &plan(1, true))?;
    assert_same_bits(&network.gradients(), &whole);
    Ok(())
}

#[test]
fn shards_that_do_not_divide_the_batch_are_refused() -> Result<()> {
    let network = Network::new(&hlx_core::testing::cpu()?)?;
    let error = network
        .pass(0..6, &plan(4, false))
        .expect_err("4 shards of 6");
    assert_eq!(
        error.to_string(),
        "linear: 4 shards do not divide a batch of 6"
    );
    Ok(())
}

#[test]
fn every_device_gives_the_same_gradients_recorded_or_not() -> Result<()> {
    let mut expected = None;
    for device in hlx_core::testing::own_devices() {
        let network = Network::new(&device)?;
        let scale = Tensor::from_slice(&device, &[1.0 / 24.0], &[1])?;
        let inputs = network.inputs(0..8)?;
        network
            .loss(&inputs, &scale)?
            .backward_with(&plan(2, false))?;
        let live = network.gradients();
        let step = || {
            network
                .loss(&inputs, &scale)?
                .backward_with(&plan(2, false))
        };
        let (graph, ()): (Graph, ()) = device.record::<_, AutogradError>(step)?;
        graph.replay()?;
        graph.replay()?;
        assert_same_bits(&network.gradients(), &live);
        let expected = expected.get_or_insert_with(|| live.clone());
        assert_same_bits(&live, expected);
    }
    Ok(())
}

#[test]
fn leaves_accumulate_until_they_are_zeroed() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let x = Tensor::from_slice(&device, &[1.0, -2.0], &[2])?.with_gradient();
    assert!(x.grad().is_none());
    x.mul(&x)?.sum()?.backward()?;
    x.sum()?.backward()?;
    assert_eq!(x.grad().expect("has one").to_vec::<f32>()?, [3.0, -3.0]);
    x.zero_grad();
    assert!(x.grad().is_none());
    x.sum()?.backward()?;
    assert_eq!(x.grad().expect("has one").to_vec::<f32>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn a_parameter_writes_its_gradient_where_it_is_told() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let flat = device.buffer_of(&[7.0; 66])?;
    let (values, gradient) = (device.buffer_of(&[3.0, 4.0])?, flat.slice(64, 2)?);
    let w = Tensor::parameter(
        &device,
        "w",
        values,
        Arc::new(move || Ok(gradient.clone())),
        &[2],
    )?;
    w.mul(&w)?.sum()?.backward()?;
    assert_eq!(device.download::<f32>(&flat)?[62..], [7.0, 7.0, 6.0, 8.0]);
    w.sum()?.backward_with(&BackwardPlan::default())?;
    assert_eq!(device.download::<f32>(&flat)?[62..], [7.0, 7.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn contributions_are_added_from_the_last_consumer_to_the_first() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let factor = |value: f32| Tensor::from_slice(&device, &[value], &[1]);
    // The order shows: 1 is lost beside 2^24, and the sum from the first would be 0.
    let x = factor(1.0)?.with_gradient();
    let first = x.mul(&factor(1.0)?)?;
    let second = x.mul(&factor(16_777_216.0)?)?;
    let third = x.mul(&factor(-16_777_216.0)?)?;
    let y = first.add(&second)?.add(&third)?;
    y.backward()?;
    assert_eq!(x.grad().expect("has one").to_vec::<f32>()?, [1.0]);
    Ok(())
}

#[test]
fn nothing_is_recorded_within_no_grad() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let x = Tensor::from_slice(&device, &[1.0, 2.0], &[2])?.with_gradient();
    let y = no_grad(|| x.mul(&x)?.sum())?;
    assert!(!y.requires_grad());
    assert!(matches!(y.backward(), Err(AutogradError::NoGraph)));
    assert!(x.sum()?.requires_grad(), "recording is on again");
    Ok(())
}

#[test]
fn a_second_pass_through_a_graph_is_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let x = Tensor::from_slice(&device, &[1.0, 2.0], &[2])?.with_gradient();
    let y = x.mul(&x)?.sum()?;
    y.backward()?;
    let error = y.backward().expect_err("freed");
    let expected = "backward: sum was differentiated before and its saved tensors are gone";
    assert_eq!(error.to_string(), expected);
    Ok(())
}

#[test]
fn a_pass_from_several_elements_needs_their_gradient() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let x = Tensor::from_slice(&device, &[1.0, 2.0], &[2])?.with_gradient();
    let y = x.mul(&x)?;
    let error = y.backward().expect_err("two elements");
    let expected = "backward: the tensor has shape [2], expected one element or a given gradient";
    assert_eq!(error.to_string(), expected);
    let upstream = Tensor::from_slice(&device, &[10.0, 100.0], &[2])?;
    y.backward_from(&upstream, &BackwardPlan::default())?;
    assert_eq!(
        bits(&x.grad().expect("has one")),
        [20.0_f32, 400.0].map(f32::to_bits)
    );
    Ok(())
}

#[test]
fn a_parameter_of_two_operations_needs_the_whole_batch() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let x = Tensor::from_slice(&device, &series(1, 12), &[4, 3])?.with_samples(0)?;
    let (values, gradient) = (device.buffer_of(&series(2, 9))?, device.alloc(9)?);
    let w = Tensor::parameter(
        &device,
        "tied",
        values,
        Arc::new(move || Ok(gradient.clone())),
        &[3, 3],
    )?;
    let loss = || x.linear(&w, None)?.linear(&w, None)?.sum();
    let error = loss()?
        .backward_with(&plan(2, false))
        .expect_err("a part of the batch");
    let expected = "linear: the parameter tied has a gradient from another operation of this \
                    graph; with a part of the batch its sum would depend on the split";
    assert_eq!(error.to_string(), expected);
    let whole = BackwardPlan {
        shards: 2,
        ..BackwardPlan::default()
    };
    loss()?.backward_with(&whole)?;
    let both = w.grad().expect("has one").to_vec::<f32>()?;
    let twice = w.detach().with_gradient();
    x.linear(&w.detach(), None)?
        .linear(&twice, None)?
        .sum()?
        .backward_with(&whole)?;
    let once = w.detach().with_gradient();
    x.linear(&once, None)?
        .linear(&w.detach(), None)?
        .sum()?
        .backward_with(&whole)?;
    let parts = [twice, once].map(|leaf| {
        leaf.grad()
            .expect("has one")
            .to_vec::<f32>()
            .expect("downloads")
    });
    let sum: Vec<f32> = parts[0].iter().zip(&parts[1]).map(|(a, b)| a + b).collect();
    assert_eq!(both, sum);
    Ok(())
}

#[test]
fn values_computed_again_have_their_bits() -> Result<()> {
    // Large enough that a recording on a Vulkan device saves neither the norm's output nor the
    // activation's.
    const ROWS: usize = 2048;
    const COLUMNS: usize = 2048;
    for device in hlx_core::testing::own_devices() {
        let leaf = |seed, shape: &[usize]| -> Result<Tensor> {
            let values = series(seed, shape.iter().product());
            Ok(Tensor::from_slice(&device, &values, shape)?.with_gradient())
        };
        let (gain, shift) = (leaf(1, &[COLUMNS])?, leaf(2, &[COLUMNS])?);
        let (first, second) = (leaf(3, &[1, COLUMNS])?, leaf(4, &[1, COLUMNS])?);
        let x = leaf(5, &[ROWS, COLUMNS])?.with_samples(0)?;
        let step = || -> Result<()> {
            let y = x.layer_norm(&gain, &shift, 1e-5)?;
            let sum = y
                .linear(&first, None)?
                .add(&y.relu()?.linear(&second, None)?)?;
            sum.sum()?.backward_with(&plan(2, false))
        };
        let leaves = [&x, &gain, &shift, &first, &second];
        step()?;
        let eager = leaves.map(|leaf| bits(&leaf.grad().expect("has one")));
        for leaf in leaves {
            leaf.zero_grad();
        }
        let (graph, ()) = device.record(step)?;
        graph.replay()?;
        let recorded = leaves.map(|leaf| bits(&leaf.grad().expect("has one")));
        assert!(eager == recorded, "{}", device.info());
    }
    Ok(())
}
