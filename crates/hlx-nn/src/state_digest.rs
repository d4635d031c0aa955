//! The digest of a model and its optimizer, computed on the device.
//!
//! Parameters are one list of tensors in the order of declaration; the optimizer's state is one
//! list too, buffer by buffer, its names such as `mean/blocks.0.attention.qkv.weight`. Both roots
//! and every tensor's are those of [`hlx_kernels::tree_digest`].

use hlx_core::Buffer;
use hlx_kernels::tree_digest::{DigestKind, ListDigest, PendingDigests, TreeDigester};

use crate::{Optimizer, ParameterStore, Result};

/// The digests of a state, tensor by tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDigest {
    /// Of the parameters.
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

/// Digests a parameter store and its optimizer, prepared once for their layout.
pub struct StateDigester {
    /// The values' digester, then one for each buffer of the optimizer.
    digesters: Vec<TreeDigester>,
}

impl StateDigester {
    /// Prepares the digests: 3 small buffers on the device with an optimizer of 2 moments.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(store: &ParameterStore, optimizer: &dyn Optimizer) -> Result<Self> {
        let names = optimizer
            .buffers()
            .into_iter()
            .map(|(name, _)| format!("{name}/"));
        let digesters = std::iter::once(String::new())
            .chain(names)
            .map(|prefix| TreeDigester::new(store.context(), DigestKind::F32, store.spans(&prefix)))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Self { digesters })
    }

    /// Launches the digests of the state as it is now and starts their download; does not wait.
    ///
    /// # Errors
    /// What the device reports.
    pub fn send_for(
        &self,
        store: &ParameterStore,
        optimizer: &dyn Optimizer,
    ) -> Result<PendingStateDigest> {
        let buffers = optimizer.buffers().into_iter().map(|(_, buffer)| buffer);
        let buffers = std::iter::once(store.values()).chain(buffers);
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
        let mut lists = lists.into_iter();
        let parameters = lists.next().unwrap_or_default();
        Ok(StateDigest {
            parameters: ListDigest::new(parameters),
            optimizer: ListDigest::new(lists.flatten().collect()),
        })
    }

    /// Digests the state as it is now, and waits.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self, store: &ParameterStore, optimizer: &dyn Optimizer) -> Result<StateDigest> {
        let pending = self.send_for(store, optimizer)?;
        self.receive(pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdamW, AdamWConfig, Init, ParameterBuilder, Sgd, SgdConfig};
    use hlx_kernels::tree_digest::tree_digest_f32;

    #[test]
    fn a_state_has_the_digests_of_its_tensors() -> Result<()> {
        let ctx = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        builder.add("b.weight", &[5, 13], Init::Normal { std: 0.5 });
        builder.add("a.bias", &[3], Init::Ones);
        let store = builder.build(&ctx, 9)?;
        let adamw = AdamW::new(&store, AdamWConfig::default())?;
        let digester = StateDigester::new(&store, &adamw)?;
        let found = digester.digest(&store, &adamw)?;
        let values = store.download(store.values())?;
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
        let pending = digester.send_for(&store, &adamw)?;
        ctx.fill(store.values(), 0)?;
        assert_eq!(digester.receive(pending)?, found);
        assert_ne!(
            digester.digest(&store, &adamw)?.parameters,
            found.parameters
        );

        let plain = Sgd::new(&store, SgdConfig::default())?;
        let found = StateDigester::new(&store, &plain)?.digest(&store, &plain)?;
        assert_eq!(found.optimizer, ListDigest::new(Vec::new()));
        Ok(())
    }
}
