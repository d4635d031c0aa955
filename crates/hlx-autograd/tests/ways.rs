//! What is chosen by device or by tuning above the kernels changes no bit, also where numbers are not finite: how
//! shards are summed, what is computed again, what a recorded pass joins or leaves out, which attention is launched.

use hlx_autograd::{AttentionSpec, BackwardPlan, DropoutMask, IGNORE_INDEX, Result, Tensor};
use hlx_core::digest::canonical_bits;
use hlx_core::testing::own_devices_in;
use hlx_core::{Arithmetic, Device, Tuning};
use hlx_kernels::KernelTuning;

const SAMPLES: usize = 4;
const TIME: usize = 8;
const WIDTH: usize = 16;
const VOCABULARY: usize = 24;
const PARAMETERS: [(usize, usize); 7] = [
    (VOCABULARY, WIDTH),
    (1, WIDTH),
    (3 * WIDTH, WIDTH),
    (WIDTH, WIDTH),
    (4 * WIDTH, WIDTH),
    (WIDTH, 4 * WIDTH),
    (VOCABULARY, WIDTH),
];

/// Which number is put where: into an element of a parameter.
#[derive(Clone, Copy, Debug)]
struct Special {
    parameter: usize,
    at: usize,
    number: f32,
}

const SPECIALS: [Option<Special>; 6] = {
    const fn put(parameter: usize, at: usize, number: f32) -> Option<Special> {
        Some(Special {
            parameter,
            at,
            number,
        })
    }
    [
        None,
        // The embedding of the token that the last position of a sample has alone.
        put(0, 23 * WIDTH + 3, f32::INFINITY),
        put(0, 23 * WIDTH, f32::NAN),
        // A value's weight, one of the feed-forward network, a class.
        put(2, 2 * WIDTH * WIDTH + 5, f32::INFINITY),
        put(4, 7, f32::MAX),
        put(6, 9 * WIDTH + 1, f32::NEG_INFINITY),
    ]
};

/// Parameters and inputs of a block of a transformer on a device.
struct Block {
    parameters: Vec<Tensor>,
    ids: Tensor,
    targets: Tensor,
    scale: Tensor,
    attention: AttentionSpec,
}

impl Block {
    fn new(device: &Device, special: Option<Special>, dropped: bool) -> Result<Self> {
        let parameter = |(seed, (rows, columns)): (usize, (usize, usize))| {
            let mut values: Vec<f32> = (0..rows * columns)
                .map(|i| ((i + 3) * (2 * seed + 37) % 101) as f32 / 250.0 - 0.2)
                .collect();
            if let Some(special) = special.filter(|special| special.parameter == seed) {
                values[special.at] = special.number;
            }
            let shape = [rows, columns];
            let shape = if rows == 1 { &shape[1..] } else { &shape };
            Ok(Tensor::from_slice(device, &values, shape)?.with_gradient())
        };
        let parameters: Result<Vec<Tensor>> = (0..).zip(PARAMETERS).map(parameter).collect();
        let mut ids: Vec<u32> = (0..SAMPLES * TIME).map(|i| (i * 7 % 23) as u32).collect();
        ids[2 * TIME - 1] = 23;
        let mut targets: Vec<u32> = ids.iter().map(|id| (id + 5) % 24).collect();
        targets[TIME] = IGNORE_INDEX;
        let counter = device.alloc(2)?;
        device.upload_words(&counter, &[1, 0])?;
        let dropout = DropoutMask {
            p: 0.25,
            seed: 3,
            purpose: 4,
            counter,
        };
        Ok(Self {
            parameters: parameters?,
            ids: Tensor::from_slice::<u32>(device, &ids, &[SAMPLES, TIME])?.with_samples(0)?,
            targets: Tensor::from_slice::<u32>(device, &targets, &[SAMPLES, TIME])?,
            scale: Tensor::from_slice(device, &[1.0 / 31.0], &[1])?,
            attention: AttentionSpec {
                dropout: dropped.then_some(dropout),
                ..AttentionSpec::causal()
            },
        })
    }

    /// A pass forward and backward; returns the logits and each row's loss.
    fn pass(&self) -> Result<[Tensor; 2]> {
        let [table, gain, qkv, out, up, down, classes] = &self.parameters[..] else {
            unreachable!("seven parameters");
        };
        let x = self.ids.embedding(table)?;
        let attended = x
            .layer_norm(gain, gain, 1e-5)?
            .linear(qkv, None)?
            .packed_attention(2, &self.attention)?;
        let x = attended.linear_add(out, None, &x)?;
        let inner = x.rms_norm(&[WIDTH], Some(gain), 1e-5)?.linear(up, None)?;
        let x = inner.gelu()?.linear_add(down, None, &x)?;
        let logits = x.linear(classes, None)?;
        let (loss, rows) = logits.cross_entropy_with_rows(&self.targets, &self.scale, 0.1)?;
        loss.backward_with(&BackwardPlan {
            shards: 2,
            ..BackwardPlan::default()
        })?;
        Ok([logits, rows])
    }

    /// The words of the results and of all gradients, of a pass that is recorded or not.
    fn words(&self, device: &Device, recorded: bool) -> Result<Vec<Vec<u32>>> {
        let results = if recorded {
            let (graph, results) = device.record(|| self.pass())?;
            graph.replay()?;
            results
        } else {
            self.pass()?
        };
        let gradients = self.parameters.iter();
        let gradients = gradients.map(|parameter| parameter.grad().expect("a gradient"));
        let words = |tensor: Tensor| -> Result<Vec<u32>> {
            Ok(tensor
                .to_vec::<f32>()?
                .into_iter()
                .map(canonical_bits)
                .collect())
        };
        results.into_iter().chain(gradients).map(words).collect()
    }
}

/// A change of a tuning and its name.
type Way = (&'static str, fn(&mut Tuning, &mut KernelTuning));

/// Changes that are looked at above the kernels, or that join launches.
const WAYS: [Way; 6] = [
    ("the device's own", |_, _| {}),
    ("shards summed in one kernel, all at once", |_, t| {
        t.embedding_sum_from = 1;
        t.shards_in_turn_from = usize::MAX;
    }),
    ("shards in turn, apart", |_, t| {
        t.embedding_sum_from = usize::MAX;
        t.shards_in_turn_from = 1;
    }),
    ("computed again", |_, t| t.recompute_from = 1),
    ("held, no chains, nothing left out", |d, t| {
        t.recompute_from = usize::MAX;
        d.chains = false;
        d.skips_unread = false;
    }),
    ("other epilogues, no stored scores", |_, t| {
        t.products.fused_epilogues = !t.products.fused_epilogues;
        t.products.few_rows_up_to = 0;
        t.products.few_rows_split_up_to = 0;
        t.attention.stored_bytes = 0;
    }),
];

#[test]
fn every_way_has_the_bits_of_the_cpus() -> Result<()> {
    for arithmetic in Arithmetic::EVERYWHERE {
        let devices = own_devices_in(arithmetic);
        for (special, dropped) in SPECIALS.into_iter().zip([false, true].into_iter().cycle()) {
            let expected = Block::new(&devices[0], special, dropped)?.words(&devices[0], false)?;
            for device in &devices {
                for (way, apply) in WAYS {
                    let mut tuning = device.tuning().clone();
                    let mut kernels = KernelTuning::of(device).clone();
                    apply(&mut tuning, &mut kernels);
                    let tuned = kernels.on(&device.with_tuning(tuning)?)?;
                    for recorded in [false, true] {
                        let found =
                            Block::new(&tuned, special, dropped)?.words(&tuned, recorded)?;
                        let at = expected
                            .iter()
                            .zip(&found)
                            .position(|(want, got)| want != got);
                        assert!(
                            at.is_none(),
                            "{arithmetic}, {special:?}, dropped {dropped}, {way}, recorded {recorded}, \
                             {}: result {at:?}",
                            device.info()
                        );
                    }
                }
            }
        }
    }
    Ok(())
}
