//! One checkpoint: files written together or not at all, each known by its digest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::digest::sha256_hex;
use serde::{Deserialize, Serialize};

use super::files::{sync_folder, write_and_flush};

/// The file that names the others.
const DIGESTS: &str = "digests.json";

/// `digests.json`: what a checkpoint holds, so that anyone can prove it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// Steps done.
    pub step: u64,
    /// SHA-256 over the parameters.
    pub parameters: String,
    /// SHA-256 over the optimizer's state.
    pub optimizer: String,
    /// SHA-256 of the configuration.
    pub config: String,
    /// SHA-256 of the corpus.
    pub data: String,
    /// The loss that ranks the checkpoints of a run: held out where samples are, else trained.
    pub loss: Option<f64>,
    /// SHA-256 of the `digests.json` of the checkpoint before; empty at the first.
    pub previous: String,
    /// The digest of the record of this step in `chain.jsonl`.
    #[serde(default)]
    pub record: String,
    /// SHA-256 of each file beside this one.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of the listing's bytes with these 64 digits taken out.
    #[serde(default)]
    pub seal: String,
}

/// What stands before a listing's seal.
const SEAL: &[u8] = b"\"seal\": \"";

impl Digests {
    /// Fills in the seal and returns the listing's bytes.
    fn seal(&mut self) -> Result<Vec<u8>> {
        self.seal.clear();
        self.seal = sha256_hex(&self.to_bytes()?);
        self.to_bytes()
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut listing = serde_json::to_vec_pretty(self)?;
        listing.push(b'\n');
        Ok(listing)
    }

    /// Reads a listing and proves its seal; one without (HLX before the chain) has none to prove.
    fn from_bytes(listing: &[u8]) -> Result<Self> {
        let digests: Self = serde_json::from_slice(listing)?;
        let mut places = listing.windows(SEAL.len());
        if let Some(at) = places.rposition(|window| window == SEAL) {
            let (before, rest) = listing.split_at(at + SEAL.len());
            let after = rest.get(digests.seal.len()..).unwrap_or_default();
            let found = sha256_hex(&[before, after].concat());
            ensure!(
                found == digests.seal,
                "is damaged: its SHA-256 is {found}, it says {}",
                digests.seal
            );
        }
        Ok(digests)
    }
}

/// A checkpoint on disk whose files have their digests.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    /// What it holds.
    pub digests: Digests,
    chain: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Checkpoint {
    /// Writes a checkpoint under `parent`: all its files in a temporary folder, flushed to the
    /// disk, then one rename. Fills in `digests.files`; returns the digest for the next one's
    /// `previous`.
    ///
    /// # Errors
    /// The folder and the system's words, such as a full disk; nothing is left behind.
    pub fn write(parent: &Path, mut digests: Digests, files: &[(&str, Vec<u8>)]) -> Result<String> {
        digests.files = files
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), sha256_hex(bytes)))
            .collect();
        let listing = digests.seal()?;
        let path = parent.join(folder_name(digests.step));
        let temporary = parent.join(format!(".{}.tmp", folder_name(digests.step)));
        let written = fill_folder(&temporary, files, &listing)
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| sync_folder(Some(parent)));
        if written.is_err() {
            let _ = fs::remove_dir_all(&temporary);
        }
        written.with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(sha256_hex(&listing))
    }

    /// Reads a checkpoint and checks every file's digest.
    ///
    /// # Errors
    /// The file that is missing, or whose digest is not the one in `digests.json`.
    pub fn open(path: &Path) -> Result<Self> {
        let listing = read(&path.join(DIGESTS))?;
        let digests = Digests::from_bytes(&listing)
            .with_context(|| path.join(DIGESTS).display().to_string())?;
        let mut files = BTreeMap::new();
        for (name, expected) in &digests.files {
            let file = path.join(name);
            let bytes = read(&file)?;
            let found = sha256_hex(&bytes);
            ensure!(
                found == *expected,
                "{}: is truncated or tampered with: its SHA-256 is {found}, {DIGESTS} says \
                 {expected}",
                file.display()
            );
            files.insert(name.clone(), bytes);
        }
        let chain = sha256_hex(&listing);
        Ok(Self {
            path: path.to_owned(),
            digests,
            chain,
            files,
        })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The digest that the next checkpoint names as `previous`.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// The name of a file that the checkpoint does not hold.
    pub fn file(&self, name: &str) -> Result<&[u8]> {
        let bytes = self.files.get(name).map(Vec::as_slice);
        bytes.with_context(|| format!("{}: holds no {name}", self.path.display()))
    }

    /// Fails unless a digest made of the loaded tensors is the one that the checkpoint states.
    ///
    /// # Errors
    /// What differs, and both digests.
    pub fn prove(&self, what: &str, expected: &str, found: &str) -> Result<()> {
        ensure!(
            found == expected,
            "{}: the {what} have digest {found}, {DIGESTS} says {expected}",
            self.path.display()
        );
        Ok(())
    }
}

/// Which checkpoints stay.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The newest ones, besides the best.
    pub keep: usize,
}

impl Retention {
    /// Removes the checkpoints that are neither among the newest nor the best, and what a crash
    /// left half-written.
    ///
    /// # Errors
    /// The folder and the system's words.
    pub fn apply(&self, parent: &Path) -> Result<()> {
        let listed = list(parent)?;
        let newest = listed.len().saturating_sub(self.keep);
        let best = best(&listed);
        for (step, path) in &listed[..newest] {
            if Some(*step) != best {
                fs::remove_dir_all(path).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }
}

/// The step of the lowest loss; the newest of equals.
fn best(listed: &[(u64, PathBuf)]) -> Option<u64> {
    let loss = |path: &Path| {
        let digests: Digests = serde_json::from_slice(&fs::read(path.join(DIGESTS)).ok()?).ok()?;
        digests.loss.filter(|loss| !loss.is_nan())
    };
    let ranked = listed
        .iter()
        .filter_map(|(step, path)| Some((loss(path)?, *step)));
    ranked
        .min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
        .map(|(_, step)| step)
}

/// The checkpoints under a folder by step.
pub(super) fn list(parent: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).with_context(|| parent.display().to_string())? {
        let path = entry.with_context(|| parent.display().to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(step) = name
            .strip_prefix("step-")
            .and_then(|step| step.parse().ok())
        {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes what a crash left half-written.
pub(super) fn remove_temporaries(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent).with_context(|| parent.display().to_string())? {
        let path = entry.with_context(|| parent.display().to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(".step-") && name.ends_with(".tmp") {
            fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

fn folder_name(step: u64) -> String {
    format!("step-{step:06}")
}

fn fill_folder(path: &Path, files: &[(&str, Vec<u8>)], listing: &[u8]) -> std::io::Result<()> {
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path)?;
    for (name, bytes) in files {
        write_and_flush(&path.join(name), bytes)?;
    }
    write_and_flush(&path.join(DIGESTS), listing)?;
    sync_folder(Some(path))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(step: u64, loss: f64) -> Digests {
        Digests {
            step,
            parameters: "p".into(),
            optimizer: "o".into(),
            config: "c".into(),
            data: "d".into(),
            loss: Some(loss),
            previous: String::new(),
            record: String::new(),
            files: BTreeMap::new(),
            seal: String::new(),
        }
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("hlx-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("folder");
        path
    }

    #[test]
    fn a_checkpoint_comes_back_or_names_the_fault() {
        let parent = folder("checkpoint");
        let chain = Checkpoint::write(&parent, digests(7, 1.0), &[("a.bin", vec![1, 2, 3])]);
        let path = parent.join("step-000007");
        let back = Checkpoint::open(&path).expect("opens");
        assert_eq!(back.file("a.bin").expect("file"), [1, 2, 3]);
        assert_eq!(back.chain(), chain.expect("written"));
        fs::write(path.join("a.bin"), [1, 2]).expect("cut");
        let error = format!("{:#}", Checkpoint::open(&path).expect_err("must fail"));
        assert!(
            error.contains("a.bin: is truncated or tampered with"),
            "{error}"
        );
        fs::remove_dir_all(parent).expect("cleared");
    }

    #[test]
    fn the_newest_and_the_best_stay() {
        let parent = folder("retention");
        for (step, loss) in [(1, 3.0), (2, 1.0), (3, 2.0), (4, 2.5), (5, 2.6)] {
            Checkpoint::write(&parent, digests(step, loss), &[]).expect("written");
        }
        fs::create_dir(parent.join(".step-000009.tmp")).expect("folder");
        Retention { keep: 2 }.apply(&parent).expect("applies");
        remove_temporaries(&parent).expect("cleared");
        let steps: Vec<u64> = list(&parent)
            .expect("lists")
            .iter()
            .map(|(step, _)| *step)
            .collect();
        assert_eq!(steps, [2, 4, 5]);
        assert_eq!(fs::read_dir(&parent).expect("reads").count(), 3);
        fs::remove_dir_all(parent).expect("cleared");
    }
}
