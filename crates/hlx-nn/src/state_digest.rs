//! The digest of a model and its optimizer, computed on the device.
//!
//! Parameters, and after them the model's buffers, are one list of tensors in the order of
//! declaration; the optimizer's state is one list too, buffer by buffer, its names such as `mean/blocks.0.attention.qkv.weight`. Both roots
//! and every tensor's are those of [`hlx_kernels::tree_digest`].

use hlx_core::Buffer;
use hlx_kernels::tree_digest::{DigestKind, ListDigest, PendingDigests, TensorSpan, TreeDigester};

use crate::{Optimizer, Result, StateSpan, Weights, state_spans};

/// The digests of a state, tensor by tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDigest {
    /// Of the parameters, and of the buffers behind them.
    pub parameters: ListDigest,
    /// Of the optimizer's tensors; an optimizer without any has the digest of no tensors.
    pub optimizer: ListDigest,
}

/// Digests of a state whose download is under way; one for each flat buffer.
pub struct PendingStateDigest(Vec<PendingDigests>);

impl PendingStateDigest {
    /// Whether they have arrived.
    ///
    /// # Errors
    /// What the device reports.
    pub fn is_done(&self) -> Result<bool> {
        for pending in &self.0 {
            if !pending.is_done()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Digests a model's weights and its optimizer, prepared once for their layout.
pub struct StateDigester {
    /// The values' digester, that of the model's buffers if it has any, then one for each buffer of
    /// the optimizer.
    digesters: Vec<TreeDigester>,
    /// How many of them are of the model.
    n_of_model: usize,
}

/// A whole tensor of a state.
fn tensor_span(state: StateSpan) -> TensorSpan {
    TensorSpan {
        name: state.name,
        shape: state.shape,
        offset: state.at,
    }
}

/// The tensors of a state in the order of their digests: lists of the model, and one list for each buffer of the optimizer.
/// `offset` is a tensor's place in the whole buffer.
pub fn digested_tensors(weights: &Weights, optimizer: &dyn Optimizer) -> [Vec<Vec<TensorSpan>>; 2] {
    let mut of_model = vec![weights.spans("")];
    if !weights.buffers().is_empty() {
        of_model.push(weights.buffer_spans());
    }
    let names = optimizer.buffers().into_iter().map(|(name, _)| name);
    let of_optimizer = names.map(|name| {
        let all = 0..weights.n_words();
        let state = state_spans(optimizer.layout(name), weights, name, all).into_iter();
        state.map(tensor_span).collect()
    });
    [of_model, of_optimizer.collect()]
}

impl StateDigester {
    /// Prepares the digests: 3 small buffers on the device with an optimizer of 2 moments.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(weights: &Weights, optimizer: &dyn Optimizer) -> Result<Self> {
        let [of_model, of_optimizer] = digested_tensors(weights, optimizer);
        let n_of_model = of_model.len();
        let spans = of_model.into_iter().chain(of_optimizer);
        let digesters = spans
            .map(|spans| TreeDigester::new(weights.device(), DigestKind::F32, spans))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Self {
            digesters,
            n_of_model,
        })
    }

    /// Launches the digests of the state as it is now and starts their download; does not wait.
    ///
    /// # Errors
    /// What the device reports.
    pub fn send_for(
        &self,
        weights: &Weights,
        optimizer: &dyn Optimizer,
    ) -> Result<PendingStateDigest> {
        self.send_for_buffers(weights, &optimizer.buffers())
    }

    /// As [`StateDigester::send_for`], of whole buffers of the optimizer's state
    /// ([`gather_state`](crate::gather_state)).
    ///
    /// # Errors
    /// What the device reports.
    pub fn send_for_buffers(
        &self,
        weights: &Weights,
        buffers: &[(&'static str, &Buffer)],
    ) -> Result<PendingStateDigest> {
        let of_model = [weights.values(), weights.buffer_values()];
        let of_model = of_model.into_iter().take(self.n_of_model);
        let buffers = of_model.chain(buffers.iter().map(|(_, buffer)| *buffer));
        let together: Vec<(&TreeDigester, &Buffer)> = self.digesters.iter().zip(buffers).collect();
        TreeDigester::launch_together(&together)?;
        let pending = self.digesters.iter().map(TreeDigester::read_later);
        Ok(PendingStateDigest(
            pending.collect::<std::result::Result<_, _>>()?,
        ))
    }

    /// Waits for digests whose download this digester has started.
    ///
    /// # Errors
    /// What the device reports.
    pub fn receive(&self, pending: PendingStateDigest) -> Result<StateDigest> {
        let mut lists = Vec::with_capacity(self.digesters.len());
        for (digester, pending) in self.digesters.iter().zip(pending.0) {
            lists.push(digester.receive(pending)?.tensors);
        }
        let optimizer = lists.split_off(self.n_of_model).concat();
        Ok(StateDigest {
            parameters: ListDigest::new(lists.concat()),
            optimizer: ListDigest::new(optimizer),
        })
    }

    /// Digests the state as it is now, and waits.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self, weights: &Weights, optimizer: &dyn Optimizer) -> Result<StateDigest> {
        let pending = self.send_for(weights, optimizer)?;
        self.receive(pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdamW, AdamWConfig, Init, ParameterBuilder, SGD, SGDConfig};
    use hlx_kernels::tree_digest::tree_digest_f32;

    #[test]
    fn a_state_has_the_digests_of_its_tensors() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        builder.parameter("b.weight", &[5, 13], Init::Normal { std: 0.5 });
        builder.parameter("a.bias", &[3], Init::Ones);
        let weights = builder.build(&device, 9)?;
        let adamw = AdamW::new(&weights, AdamWConfig::default())?;
        let digester = StateDigester::new(&weights, &adamw)?;
        let found = digester.digest(&weights, &adamw)?;
        let values = weights.download(weights.values())?;
        for (tensor, values) in found.parameters.tensors.iter().zip(&values) {
            assert_eq!(tensor.root, tree_digest_f32(values), "{}", tensor.name);
        }
        let names: Vec<&str> = found
            .optimizer
            .tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        let expected = [
            "mean/b.weight",
            "mean/a.bias",
            "square/b.weight",
            "square/a.bias",
        ];
        assert_eq!(names, expected);
        let pending = digester.send_for(&weights, &adamw)?;
        device.fill(weights.values(), 0)?;
        assert_eq!(digester.receive(pending)?, found);
        assert_ne!(
            digester.digest(&weights, &adamw)?.parameters,
            found.parameters
        );

        let plain = SGD::new(&weights, SGDConfig::default())?;
        let found = StateDigester::new(&weights, &plain)?.digest(&weights, &plain)?;
        assert_eq!(found.optimizer, ListDigest::new(Vec::new()));
        Ok(())
    }
}
