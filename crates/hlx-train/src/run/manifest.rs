//! `run.json`: the device, driver, versions and configuration of a run, for those who repeat it.

use anyhow::{Context as _, Result};
use hlx_core::{Device, SPECIFICATION};
use serde::{Deserialize, Serialize};

use super::seal::{self, Sealed};
use crate::config::Config;

/// Where a rank runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankPlace {
    /// The host's name.
    pub host: String,
    /// What opens the device: `cpu`, `vulkan:0`.
    pub selector: String,
    /// The device's name.
    pub device: String,
    /// Its driver.
    pub driver: String,
}

/// What a run was made of and on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The arithmetic that the bits follow: `portable`, `integer`, `fast` or `fast_f16`.
    pub arithmetic: String,
    /// [`Config::identity_digest`].
    pub config: String,
    /// SHA-256 of the corpus.
    pub data: String,
    /// Values that are trained.
    pub n_parameters: u64,
    /// The stretches that the run ran in, in order: one for its start and one for each resumption.
    pub stretches: Vec<RunStretch>,
    /// SHA-256 of the file's bytes with these 64 digits taken out.
    pub seal: String,
}

/// A part of a run that one process computed on one device, or several did on theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStretch {
    /// Steps done when it began.
    pub from_step: u64,
    /// [`SPECIFICATION`] of the program.
    pub specification: u32,
    /// HLX's version; empty where an older HLX has overwritten it.
    pub hlx: String,
    /// SHA-256 of the list of shader digests; empty where an older HLX has overwritten it.
    pub shaders: String,
    /// The device's name.
    pub device: String,
    /// What opens it: `cpu`, `vulkan:0`.
    pub selector: String,
    /// Its driver.
    pub driver: String,
    /// Where each of several ranks ran; the device above is that of rank 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankPlace>,
}

impl Sealed for Manifest {
    fn seal_mut(&mut self) -> &mut String {
        &mut self.seal
    }
}

impl Manifest {
    /// Describes a run without stretches; `data` is the digest of its corpus.
    ///
    /// # Errors
    /// As [`Config::identity_digest`].
    pub fn new(config: &Config, data: &str, n_parameters: u64) -> anyhow::Result<Self> {
        Ok(Self {
            arithmetic: config.arithmetic.name().to_owned(),
            config: config.identity_digest()?,
            data: data.to_owned(),
            n_parameters,
            stretches: Vec::new(),
            seal: String::new(),
        })
    }

    /// Appends the stretch that this program computes on a device from a step on.
    pub fn add_stretch(&mut self, device: &Device, from_step: u64, ranks: &[RankPlace]) {
        let info = device.info();
        self.stretches.push(RunStretch {
            from_step,
            specification: SPECIFICATION,
            hlx: env!("CARGO_PKG_VERSION").to_owned(),
            shaders: shaders_digest(),
            device: info.name.clone(),
            selector: info.selector.clone(),
            driver: info.driver.clone(),
            ranks: match ranks {
                [_] => Vec::new(),
                several => several.to_vec(),
            },
        });
    }

    /// Fills in the seal and returns the file's bytes.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn to_sealed_bytes(&mut self) -> Result<Vec<u8>> {
        seal::seal(self)
    }

    /// Reads the file's bytes and checks the seal. A file of HLX before the specification's number
    /// has no seal, and the versions of its last stretch alone.
    ///
    /// # Errors
    /// Bytes that are not a manifest, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if let Ok(old) = serde_json::from_slice::<OldManifest>(bytes) {
            return Ok(old.into());
        }
        let manifest: Self = serde_json::from_slice(bytes).context("is damaged")?;
        seal::check(bytes, &manifest.seal)?;
        Ok(manifest)
    }
}

/// The file as HLX wrote it before the specification's number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldManifest {
    profile: String,
    hlx: String,
    config_digest: String,
    data_digest: String,
    shaders_digest: String,
    n_parameters: u64,
    sessions: Vec<OldSession>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldSession {
    from_step: u64,
    device: String,
    selector: String,
    driver: String,
}

impl From<OldManifest> for Manifest {
    fn from(old: OldManifest) -> Self {
        let stretch = |session: OldSession| RunStretch {
            from_step: session.from_step,
            specification: super::specification_before_numbers(),
            hlx: String::new(),
            shaders: String::new(),
            device: session.device,
            selector: session.selector,
            driver: session.driver,
            ranks: Vec::new(),
        };
        let mut stretches: Vec<RunStretch> = old.sessions.into_iter().map(stretch).collect();
        if let Some(last) = stretches.last_mut() {
            (last.hlx, last.shaders) = (old.hlx, old.shaders_digest);
        }
        Self {
            arithmetic: old.profile,
            config: old.config_digest,
            data: old.data_digest,
            n_parameters: old.n_parameters,
            stretches,
            seal: String::new(),
        }
    }
}

/// SHA-256 of the list of shader digests that this program was built with.
pub fn shaders_digest() -> String {
    hlx_core::digest::sha256_hex(hlx_kernels::SHADER_DIGESTS.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flipped_bit_of_a_manifest_is_found() {
        let mut manifest = Manifest {
            arithmetic: "portable".into(),
            config: "c".into(),
            data: "d".into(),
            n_parameters: 7,
            stretches: Vec::new(),
            seal: String::new(),
        };
        manifest.add_stretch(&hlx_core::testing::cpu().expect("opens"), 0, &[]);
        let bytes = manifest.to_sealed_bytes().expect("seals");
        assert_eq!(Manifest::from_bytes(&bytes).expect("reads"), manifest);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(Manifest::from_bytes(&damaged).is_err(), "byte {at}");
            assert!(Manifest::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_manifest_from_before_the_specifications_number_is_read() {
        let old = br#"{"profile": "portable", "hlx": "0.1.0", "config_digest": "c",
            "data_digest": "d", "shaders_digest": "s", "n_parameters": 7, "sessions": [
            {"from_step": 0, "device": "a", "selector": "cpu", "driver": "x"},
            {"from_step": 3, "device": "b", "selector": "vulkan:0", "driver": "y"}]}"#;
        let found = Manifest::from_bytes(old).expect("reads");
        let versions: Vec<_> = found
            .stretches
            .iter()
            .map(|at| (at.from_step, &at.hlx[..]))
            .collect();
        assert_eq!(versions, [(0, ""), (3, "0.1.0")]);
        assert!(found.stretches.iter().all(|at| at.specification == 1));
    }
}
