//! The records of a run's chain: their digests are launched on the device, and joined with the
//! steps' losses when they arrive.

use anyhow::Result;
use hlx_nn::{PendingStateDigest, StateDigest, StateDigester};

use super::shared_step::as_slices;
use super::{Engine, StepLoss};
use crate::run::{Bits, ChainRecord, Origin, Place, Progress, place};

/// Makes records of the steps of an engine.
pub(crate) struct ChainRecorder {
    digester: StateDigester,
    /// The losses and norms of the steps since the last record.
    losses: Vec<Bits>,
    norms: Vec<Bits>,
    /// The step of the newest record that was launched.
    newest: Option<u64>,
    /// Where the steps after the last record are computed, if the chain does not say so yet.
    moved_to: Option<Place>,
}

/// A record whose digests are being computed.
pub(crate) struct PendingChainRecord {
    step: u64,
    cursor: (u64, u64),
    digests: PendingStateDigest,
}

impl PendingChainRecord {
    /// Whether they have arrived.
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.digests.is_done()?)
    }
}

impl ChainRecorder {
    /// Prepares the digests of an engine's state. `newest` is the step that the last record is
    /// of, if there is one.
    pub fn new(engine: &Engine, newest: Option<u64>) -> Result<Self> {
        let digester = StateDigester::new(engine.weights(), engine.optimizer.as_ref())?;
        Ok(Self {
            digester,
            losses: Vec::new(),
            norms: Vec::new(),
            newest,
            moved_to: None,
        })
    }

    /// Digests the state as it is now, and waits.
    pub fn digest(&self, engine: &Engine) -> Result<StateDigest> {
        Ok(self.digester.receive(self.send_for(engine)?)?)
    }

    /// Launches the digests of the state as it is now; all ranks call it.
    fn send_for(&self, engine: &Engine) -> Result<PendingStateDigest> {
        let whole = engine.whole_state()?;
        let buffers = as_slices(&whole);
        Ok(self.digester.send_for_buffers(engine.weights(), &buffers)?)
    }

    /// Launches the digests of a record of this step, unless there is one.
    pub fn launch(
        &mut self,
        engine: &Engine,
        progress: &Progress,
    ) -> Result<Option<PendingChainRecord>> {
        if self.newest.replace(progress.step) == Some(progress.step) {
            return Ok(None);
        }
        Ok(Some(PendingChainRecord {
            step: progress.step,
            cursor: engine.cursor(progress),
            digests: self.send_for(engine)?,
        }))
    }

    /// Adds a step's loss and gradient norm; steps come in order.
    pub fn add(&mut self, step: &StepLoss) {
        self.losses.push(step.loss.into());
        self.norms.push(step.grad_norm.into());
    }

    /// Waits for a record's digests and makes it of them and of all steps added since the last.
    pub fn receive(&mut self, pending: PendingChainRecord) -> Result<ChainRecord> {
        let state = self.digester.receive(pending.digests)?;
        let (epoch, batch_idx) = pending.cursor;
        let mut record = ChainRecord::new(pending.step, epoch, batch_idx, &state);
        record.place = self.moved_to.take();
        record.losses = std::mem::take(&mut self.losses);
        record.norms = std::mem::take(&mut self.norms);
        Ok(record)
    }

    /// Notes that the coming steps are computed elsewhere than those before.
    pub fn moves_to(&mut self, place: Option<Place>) {
        self.moved_to = place;
    }

    /// Makes the first record of a chain.
    pub fn first(&mut self, engine: &Engine, progress: &Progress) -> Result<ChainRecord> {
        let state = self.digest(engine)?;
        self.newest = Some(progress.step);
        let (epoch, batch_idx) = engine.cursor(progress);
        let mut record = ChainRecord::new(progress.step, epoch, batch_idx, &state);
        record.place = place::of(engine.device.arithmetic(), &engine.device);
        record.origin = Some(Origin::new(
            engine.device.arithmetic().name(),
            engine.config.identity_digest()?,
            engine.task.digest(),
        ));
        Ok(record)
    }
}
