//! `run.json`: under what a run was made, for those who want to make it again.

use hlx_core::Context;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::data::Dataset;

/// What a run was made of and on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The arithmetic that the bits follow: `portable`.
    pub profile: String,
    /// HLX's version.
    pub hlx: String,
    /// SHA-256 of the configuration, the path of the corpus left out.
    pub config_digest: String,
    /// SHA-256 of the corpus.
    pub data_digest: String,
    /// SHA-256 of the list of shader digests.
    pub shaders_digest: String,
    /// Values that are trained.
    pub n_parameters: u64,
    /// The devices that the run ran on, in order: one more for each resumption.
    pub sessions: Vec<Session>,
}

/// A stretch of a run on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Steps done when it began.
    pub from_step: u64,
    /// The device's name.
    pub device: String,
    /// What opens it: `cpu`, `vulkan:0`.
    pub selector: String,
    /// Its driver.
    pub driver: String,
}

impl Manifest {
    /// Describes a run that begins.
    ///
    /// # Errors
    /// As [`Config::digest`].
    pub fn new(
        ctx: &Context,
        config: &Config,
        data: &Dataset,
        n_parameters: u64,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            profile: ctx.info().profile.to_owned(),
            hlx: env!("CARGO_PKG_VERSION").to_owned(),
            config_digest: config.digest()?,
            data_digest: data.digest().to_owned(),
            shaders_digest: shaders_digest(),
            n_parameters,
            sessions: Vec::new(),
        })
    }

    /// Notes that the run goes on from a step on a device.
    pub fn add_session(&mut self, ctx: &Context, from_step: u64) {
        let info = ctx.info();
        self.sessions.push(Session {
            from_step,
            device: info.name.clone(),
            selector: info.selector.clone(),
            driver: info.driver.clone(),
        });
    }
}

/// SHA-256 of the list of shader digests that this program was built with.
pub fn shaders_digest() -> String {
    hlx_core::digest::sha256_hex(include_bytes!("../../../../shaders/spv/digests.txt"))
}
