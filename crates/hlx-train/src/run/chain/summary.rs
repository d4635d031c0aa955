//! A whole chain proved without holding its records.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use hlx_core::files;

use super::line::{Link, WAY_OUT, check_follows, proved};
use super::{Chain, Origin};

/// What a chain comes to, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSummary {
    /// Records, each of whose digest and link is proved.
    pub links: u64,
    /// The step of the first.
    pub first_step: u64,
    /// The step of the last.
    pub head_step: u64,
    /// The digest of the last, which covers all of them.
    pub head: String,
    /// What the run is.
    pub origin: Origin,
    /// Whether the file ends in a line that a crash has cut short.
    pub is_torn: bool,
}

impl ChainSummary {
    /// Proves every digest and link of a chain as [`Chain::read`] does, and holds no record: a long chain takes half the
    /// time.
    ///
    /// # Errors
    /// As [`Chain::read`].
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = files::read(path).with_context(|| path.display().to_string())?;
        let mut found: Option<Self> = None;
        for (line_idx, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let place = || format!("{}:{}", path.display(), line_idx + 1);
            let Some(line) = line.strip_suffix(b"\n") else {
                // Whether it is a line whose end is damaged is said as a reading of the records says it.
                Chain::parse(path, &bytes, u64::MAX)?;
                if let Some(found) = &mut found {
                    found.is_torn = true;
                }
                break;
            };
            let digest = proved(line).with_context(place)?.1;
            let link: std::result::Result<Link, _> = serde_json::from_slice(line);
            let link = link
                .map_err(|error| anyhow!("is no record: {error}"))
                .with_context(place)?;
            let before = found
                .as_ref()
                .map(|found| (found.head_step, &found.head[..]));
            check_follows(before, &link).with_context(place)?;
            match &mut found {
                Some(found) => {
                    found.links += 1;
                    (found.head_step, found.head) = (link.step, digest);
                }
                None => {
                    let origin = link.origin.context("its first record has no origin")?;
                    found = Some(Self {
                        links: 1,
                        first_step: link.step,
                        head_step: link.step,
                        head: digest,
                        origin,
                        is_torn: false,
                    });
                }
            }
        }
        found.with_context(|| format!("{}: holds no record{WAY_OUT}", path.display()))
    }
}
