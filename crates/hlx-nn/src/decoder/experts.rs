//! A mixture of experts: each token goes to the few feed-forward networks that a router chooses.

use hlx_autograd::{DType, ExpertChoices, Tensor};

use super::feed_forward::{FeedForward, PlainStorage};
use super::pass::Pass;
use super::{CausalConfig, ExpertsConfig};
use crate::layers::Linear;
use crate::{Init, Mode, Module, ParameterBuilder, Result};

/// y = the sum over the chosen experts, in the order of their index, of weight times expert(x).
///
/// The weights are the softmax over the router's scores of all experts, of which the largest `per_token`
/// are chosen (ties to the lower index), and with `renormalised` divided by their sum. No token is
/// dropped. An expert computes the rows of its own tokens alone ([`ExpertChoices`]). Experts with biases or adapters, or of 16
/// bits, compute every token, and what was not chosen is left out, which gives the same values; and so do experts in blocks where
/// a gradient of their input is wanted, or in another arithmetic than `integer`.
#[derive(Clone, Debug)]
pub(super) struct Experts {
    gate: Linear,
    experts: Vec<FeedForward>,
    per_token: usize,
    renormalised: bool,
}

impl Experts {
    /// Declares `gate` and `experts.0` and so on.
    pub fn new(builder: &ParameterBuilder, config: &CausalConfig, experts: &ExpertsConfig) -> Self {
        let [std, _] = config.deviations();
        let init = Init::Normal { std };
        let mut gate = builder.child("gate");
        let gate = Linear::with_init(&mut gate, config.width, experts.n_experts, init, None);
        let list = builder.child("experts");
        let expert = |expert_idx: usize| {
            FeedForward::of_expert(&list.child(expert_idx), config, experts.width)
        };
        Self {
            gate,
            experts: (0..experts.n_experts).map(expert).collect(),
            per_token: experts.per_token,
            renormalised: experts.renormalised,
        }
    }

    /// The experts of each token and their weights, \[.., chosen\], the largest weight first.
    fn chosen(&self, x: &Tensor, mode: &Mode) -> Result<Routed> {
        let scores = self.gate.forward(x, mode)?.softmax()?;
        let (mut weights, places) = scores.topk(self.per_token, -1, true)?;
        if self.renormalised {
            weights = weights.div(weights.sum_dim(&[-1], true)?)?;
        }
        Ok(Routed {
            scores,
            weights,
            places,
        })
    }

    /// As [`Module::forward`], and gives the pass the router's scores.
    pub fn forward_in(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let routed = self.chosen(x, pass.mode)?;
        pass.note_scores(routed.scores.clone());
        self.routed(x, &routed, pass.mode)
    }

    fn routed(&self, x: &Tensor, routed: &Routed, mode: &Mode) -> Result<Tensor> {
        if mode.is_observed() {
            self.observe(x, routed, mode)?;
            return self.routed(x, routed, &mode.unobserved());
        }
        match self.is_sparse(x)? {
            true => self.sparse(x, routed),
            false => self.dense(x, routed, mode),
        }
    }

    /// Whether the experts can compute their own rows of x alone.
    fn is_sparse(&self, x: &Tensor) -> Result<bool> {
        let storages = self.experts.iter().map(FeedForward::plain_storage);
        let storages = storages.collect::<Result<Vec<_>>>()?;
        let all = |one: PlainStorage| storages.iter().all(|storage| *storage == Some(one));
        let in_blocks = || all(PlainStorage::Blocks) && x.takes_experts_in_blocks();
        Ok(all(PlainStorage::Floats) || in_blocks())
    }

    /// Shows what each expert reads: it computes its own tokens once more, apart from the pass.
    fn observe(&self, x: &Tensor, routed: &Routed, mode: &Mode) -> Result<()> {
        let x = x.flatten(0, -2)?;
        let places = routed.places.to_dtype(DType::U32)?.to_vec::<u32>()?;
        for (expert_idx, expert) in self.experts.iter().enumerate() {
            let chosen = places.chunks(self.per_token).enumerate();
            let chosen = chosen.filter(|(_, of_token)| of_token.contains(&(expert_idx as u32)));
            let tokens: Vec<u32> = chosen.map(|(token, _)| token as u32).collect();
            if tokens.is_empty() {
                continue;
            }
            let ids = Tensor::from_slice::<u32>(x.device(), &tokens, &[tokens.len()])?;
            expert.forward(&ids.embedding(&x)?, mode)?;
        }
        Ok(())
    }

    /// Every expert over its own tokens.
    fn sparse(&self, x: &Tensor, routed: &Routed) -> Result<Tensor> {
        let (places, order) = routed.places.sort(-1, false)?;
        let weights = routed.weights.gather(-1, &order)?;
        let places = places.with_samples_of(x.samples());
        let choices = ExpertChoices::new(&places, self.experts.len())?;
        let rows = x.to_experts(&choices)?;
        let rows = FeedForward::forward_experts(&self.experts, &rows, &choices)?;
        let y = rows.from_experts(&weights, &choices)?;
        Ok(y.with_samples_of(x.samples()))
    }

    /// Every expert over every token.
    fn dense(&self, x: &Tensor, routed: &Routed, mode: &Mode) -> Result<Tensor> {
        let none = Tensor::zeros(x.device(), routed.scores.shape(), DType::F32)?;
        let none = none.with_samples_of(routed.scores.samples());
        let weights = none.scatter(-1, &routed.places, &routed.weights)?;
        // Not by the weights: one that is chosen may be 0, and its expert's output no number.
        let ones = Tensor::ones(x.device(), routed.places.shape(), DType::F32)?;
        let chosen = none.scatter(-1, &routed.places, &ones)?;
        let mut total = x.zeros_like()?;
        for (expert_idx, expert) in self.experts.iter().enumerate() {
            let weight = weights.narrow(-1, expert_idx, 1)?;
            let left_out = chosen.narrow(-1, expert_idx, 1)?.eq(0.0)?;
            let y = expert.forward(x, mode)?.mul(&weight)?;
            total = total.add(y.masked_fill(&left_out, 0.0)?)?;
        }
        Ok(total)
    }
}

/// What the router says of each token.
struct Routed {
    /// The softmax over all experts, \[.., experts\].
    scores: Tensor,
    /// Of the chosen ones, \[.., chosen\].
    weights: Tensor,
    /// Their indices.
    places: Tensor,
}

impl Module for Experts {
    /// \[B, T, C\]; the shape stays.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.routed(x, &self.chosen(x, mode)?, mode)
    }
}

#[cfg(test)]
mod tests {
    use hlx_autograd::no_grad;
    use hlx_core::{Arithmetic, Device};
    use hlx_kernels::product::blocks::{BlockFormat, BlockRows};

    use super::*;
    use crate::InferenceModel;

    const EXPERTS: usize = 5;
    const WIDTH: usize = 256;
    const TOKENS: usize = 8;

    /// Experts in blocks: of the format of each projection, and with the scale of each expert's blocks.
    fn model(
        device: &Device,
        format: fn(&str) -> &'static str,
        scale: fn(&str) -> f32,
        router: f32,
    ) -> Result<InferenceModel<Experts>> {
        let of_model = CausalConfig {
            width: WIDTH,
            ..CausalConfig::preset("qwen3_moe").expect("a preset")
        };
        let experts = ExpertsConfig {
            n_experts: EXPERTS,
            per_token: 2,
            width: 512,
            ..of_model.experts.clone().expect("experts")
        };
        let declare = |b: &mut ParameterBuilder| Ok(Experts::new(b, &of_model, &experts));
        let mut seed = 0;
        let model = InferenceModel::with_blocks(device, DType::F32, declare, |parameter| {
            let (name, &[n, k]) = (parameter.name(), parameter.shape()) else {
                return Ok(None);
            };
            if !name.contains("experts") {
                return Ok(None);
            }
            seed += 1;
            let format = BlockFormat::named(format(name)).expect("a format");
            let d = scale(name);
            let integers: Vec<i8> = (-8..8).filter(|&q| format.bits_of(q).is_some()).collect();
            let rows = BlockRows::new(device, format, [n, k], |row, at, block| {
                for (term, q) in block.q[..format.block].iter_mut().enumerate() {
                    let word = (row * k + at * format.block + term) as u32 * 8 + seed;
                    *q = integers[(word.wrapping_mul(0x9e37_79b9) >> 20) as usize % integers.len()];
                }
                block.d = d;
            })?;
            Ok(Some(rows))
        })?;
        for parameter in model.parameters() {
            if !parameter.tensor()?.is_of_blocks() {
                let values = Tensor::randn(device, parameter.shape(), 9)?.mul(router)?;
                model.load(parameter, &values.to_vec::<f32>()?)?;
            }
        }
        Ok(model)
    }

    fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
        let bits = |value: f32| {
            if value.is_nan() {
                u32::MAX
            } else {
                value.to_bits()
            }
        };
        Ok(tensor.to_vec::<f32>()?.into_iter().map(bits).collect())
    }

    /// The output of the experts over their own rows, and over every row.
    fn both(experts: &Experts, x: &Tensor) -> Result<[Vec<u32>; 2]> {
        no_grad(|| {
            assert!(experts.is_sparse(x)?);
            let routed = experts.chosen(x, &Mode::eval())?;
            let sparse = experts.sparse(x, &routed)?;
            let dense = experts.dense(x, &routed, &Mode::eval())?;
            let usual = experts.forward(x, &Mode::eval())?;
            assert_eq!(bits(&usual)?, bits(&sparse)?);
            Ok([bits(&sparse)?, bits(&dense)?])
        })
    }

    #[test]
    fn experts_in_blocks_have_the_same_bits_by_their_own_rows_and_by_every_row() -> Result<()> {
        let format = |name: &str| {
            if name.contains("down") {
                "Q6_K"
            } else {
                "Q4_K"
            }
        };
        let mut of_devices = Vec::new();
        for device in hlx_core::testing::devices() {
            let device = device.with_arithmetic(Arithmetic::Integer);
            let model = model(&device, format, |_| 1.0 / 128.0, 0.1)?;
            let mut found = Vec::new();
            for (tokens, seed) in [(3, 1), (70, 2)] {
                let x = Tensor::randn(&device, &[1, tokens, WIDTH], seed)?;
                let [sparse, dense] = both(&model, &x)?;
                assert_eq!(sparse, dense, "{tokens} tokens");
                assert!(sparse.iter().any(|bits| *bits << 1 != 0));
                found.push(sparse);
            }
            of_devices.push(found);
        }
        assert!(of_devices.windows(2).all(|two| two[0] == two[1]));
        Ok(())
    }

    #[test]
    fn a_chosen_expert_of_weight_0_counts_by_both_ways() -> Result<()> {
        // Scores so far apart that the second weight is 0, and the first expert, which ties choose, gives no numbers.
        let scale = |name: &str| match name.contains("experts.0.") {
            true => 2_f32.powi(120),
            false => 1.0 / 128.0,
        };
        for device in hlx_core::testing::devices() {
            let device = device.with_arithmetic(Arithmetic::Integer);
            let model = model(&device, |_| "MXFP4", scale, 1e4)?;
            let x = Tensor::randn(&device, &[1, TOKENS, WIDTH], 4)?;
            let routed = no_grad(|| model.chosen(&x, &Mode::eval()))?;
            let weights = routed.weights.to_vec::<f32>()?;
            let places = routed.places.to_dtype(DType::U32)?.to_vec::<u32>()?;
            let is_zero = |at: usize| weights[2 * at + 1] == 0.0 && places[2 * at + 1] == 0;
            let [sparse, dense] = both(&model, &x)?;
            assert_eq!(sparse, dense);
            let rows: Vec<usize> = (0..TOKENS).filter(|&at| is_zero(at)).collect();
            assert!(!rows.is_empty());
            for at in rows {
                let row = &sparse[at * WIDTH..][..WIDTH];
                assert!(row.iter().all(|bits| *bits == u32::MAX), "token {at}");
            }
        }
        Ok(())
    }

    #[test]
    fn experts_in_blocks_compute_every_token_where_a_gradient_or_floats_are_wanted() -> Result<()> {
        let cpu = hlx_core::testing::cpu()?;
        let device = cpu.with_arithmetic(Arithmetic::Integer);
        let of = |device: &Device| model(device, |_| "Q8_0", |_| 1.0 / 128.0, 0.1);
        let x = Tensor::randn(&device, &[1, 3, WIDTH], 1)?.with_gradient();
        assert!(!of(&device)?.is_sparse(&x)?);
        assert!(no_grad(
            || of(&device).and_then(|model| model.is_sparse(&x))
        )?);
        let x = Tensor::randn(&cpu, &[1, 3, WIDTH], 1)?;
        assert!(!of(&cpu)?.is_sparse(&x)?);
        Ok(())
    }
}
