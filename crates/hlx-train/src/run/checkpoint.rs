//! One checkpoint: files written together or not at all, each verified by its digest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::digest::sha256_hex;
use hlx_core::files::{self, TemporaryFolder};
use serde::{Deserialize, Serialize};

use super::place::Place;
use super::seal::{self, Sealed};
use super::specification_before_numbers;

/// The file that names the others.
pub const DIGESTS_FILE: &str = "digests.json";

/// Files that are read and hashed at a time, each by a thread.
const READ_TOGETHER: usize = 4;

/// `digests.json`: what a checkpoint holds, so that anyone can prove it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// Steps done.
    pub step: u64,
    /// [`SPECIFICATION`](hlx_core::SPECIFICATION) of the program; 1 where it is missing.
    #[serde(default = "specification_before_numbers")]
    pub specification: u32,
    /// SHA-256 over the parameters.
    pub parameters: String,
    /// SHA-256 over the optimizer's state.
    pub optimizer: String,
    /// [`Config::identity_digest`](crate::config::Config::identity_digest).
    pub config: String,
    /// SHA-256 of the corpus.
    pub data: String,
    /// The loss that ranks the checkpoints of a run: held out where samples are, else trained.
    pub loss: Option<f64>,
    /// Whether a parameter, or a loss since the checkpoint before, is NaN or infinite.
    #[serde(default, skip_serializing_if = "is_false")]
    pub non_finite: bool,
    /// SHA-256 of the `digests.json` of the checkpoint before; empty at the first.
    pub previous: String,
    /// The digest of the record of this step in `chain.jsonl`.
    #[serde(default)]
    pub record: String,
    /// Where it was computed, of an arithmetic whose bits depend on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// SHA-256 of each file beside this one.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of the listing's bytes with these 64 digits taken out.
    #[serde(default)]
    pub seal: String,
}

impl Sealed for Digests {
    fn seal_mut(&mut self) -> &mut String {
        &mut self.seal
    }
}

impl Digests {
    /// Reads a listing, proves its seal (one of HLX before the chain has none) and checks that
    /// every file that it names lies in the checkpoint's own folder.
    fn from_bytes(listing: &[u8]) -> Result<Self> {
        let digests: Self = serde_json::from_slice(listing)?;
        seal::check(listing, &digests.seal)?;
        for name in digests.files.keys() {
            ensure!(
                is_plain_name(name),
                "names the file {name:?}, expected a name of letters, digits, `.`, `_` and `-`"
            );
        }
        Ok(digests)
    }
}

// serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !value
}

/// Whether a name is a file of the folder itself on every system: no separator, no drive, no
/// parent, no hidden name.
fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

/// A checkpoint on disk whose files have their digests.
#[derive(Debug)]
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
    /// The folder and the system's message, such as a full disk; nothing is left behind.
    pub fn write(parent: &Path, digests: Digests, contents: &[(&str, Vec<u8>)]) -> Result<String> {
        let folder = Self::begin(parent, digests.step)?;
        Self::finish(folder, parent, digests, contents, &[])
    }

    /// Creates the temporary folder of a checkpoint, which [`Checkpoint::finish`] publishes: several
    /// processes may write files in it meanwhile.
    ///
    /// # Errors
    /// The folder and the system's message.
    pub fn begin(parent: &Path, step: u64) -> Result<TemporaryFolder> {
        let path = checkpoint_folder(parent, step);
        TemporaryFolder::beside(&path).with_context(|| Self::cannot_write(parent, step))
    }

    /// Writes what is left of a checkpoint's files and publishes its folder; `there` are the files that
    /// lie in it already, flushed, each with its SHA-256. See [`Checkpoint::write`].
    ///
    /// # Errors
    /// As [`Checkpoint::write`].
    pub fn finish(
        folder: TemporaryFolder,
        parent: &Path,
        mut digests: Digests,
        contents: &[(&str, Vec<u8>)],
        there: &[(&str, String)],
    ) -> Result<String> {
        let step = digests.step;
        let write = |name: &str, bytes: &[u8]| {
            let file = files::write_and_sync(&folder.path().join(name), bytes);
            file.with_context(|| Self::cannot_write(parent, step))
        };
        // Each large file takes a thread about as long to hash as the disk to write it.
        let hashed = std::thread::scope(|scope| {
            let hashing = contents.iter();
            let hashing: Vec<_> = hashing
                .map(|(name, bytes)| (*name, scope.spawn(|| sha256_hex(bytes))))
                .collect();
            for (name, bytes) in contents {
                write(name, bytes)?;
            }
            let hashed = hashing.into_iter();
            let hashed = hashed.map(|(name, hash)| (name, joined(hash.join())));
            Ok::<_, anyhow::Error>(hashed.collect::<Vec<_>>())
        })?;
        let all = hashed.into_iter().chain(there.iter().cloned());
        digests.files = all.map(|(name, hash)| (name.to_owned(), hash)).collect();
        let listing = seal::seal(&mut digests)?;
        write(DIGESTS_FILE, &listing)?;
        let published = folder.publish(&parent.join(folder_name(step)));
        published.with_context(|| Self::cannot_write(parent, step))?;
        Ok(sha256_hex(&listing))
    }

    /// What an error of its files begins with.
    pub(crate) fn cannot_write(parent: &Path, step: u64) -> String {
        let path = checkpoint_folder(parent, step);
        format!("{}: cannot be written", path.display())
    }

    /// Reads what a checkpoint states, and none of its other files.
    ///
    /// # Errors
    /// A listing that is missing or altered.
    pub fn stated(path: &Path) -> Result<Digests> {
        Ok(listing(path)?.0)
    }

    /// Reads a checkpoint and checks every file's digest.
    ///
    /// # Errors
    /// The file that is missing, or whose digest is not the one in `digests.json`.
    pub fn open(path: &Path) -> Result<Self> {
        let (digests, chain) = listing(path)?;
        let checked = |name: &str, expected: &str| {
            let file = path.join(name);
            let bytes = read(&file)?;
            let found = sha256_hex(&bytes);
            ensure!(
                found == expected,
                "{}: is truncated or tampered with: its SHA-256 is {found}, {DIGESTS_FILE} says \
                 {expected}",
                file.display()
            );
            Ok(bytes)
        };
        let named: Vec<_> = digests.files.iter().collect();
        let mut files = BTreeMap::new();
        for together in named.chunks(READ_TOGETHER) {
            std::thread::scope(|scope| {
                let reading: Vec<_> = together
                    .iter()
                    .map(|(name, expected)| scope.spawn(|| checked(name, expected)))
                    .collect();
                for ((name, _), bytes) in together.iter().zip(reading) {
                    files.insert((*name).clone(), joined(bytes.join())?);
                }
                Ok::<_, anyhow::Error>(())
            })?;
        }
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
            "{}: the {what} have digest {found}, {DIGESTS_FILE} says {expected}",
            self.path.display()
        );
        Ok(())
    }
}

/// Which checkpoints stay.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The newest ones, besides the best and the newest that is finite.
    pub newest: usize,
}

impl Retention {
    /// Removes the checkpoints that are neither among the newest, nor the best, nor the newest that is finite.
    ///
    /// # Errors
    /// The folder and the system's message.
    pub fn apply(&self, parent: &Path) -> Result<()> {
        let listed = list(parent)?;
        let newest = listed.len().saturating_sub(self.newest);
        let (best, finite) = (best(&listed), newest_finite(&listed));
        for (step, path) in &listed[..newest] {
            if ![best, finite].contains(&Some(*step)) {
                remove(path).with_context(|| format!("{}: cannot be removed", path.display()))?;
            }
        }
        Ok(())
    }
}

/// Removes a checkpoint as one: it is renamed to a temporary first, so that a crash leaves no
/// folder of its name that lacks some files.
fn remove(path: &Path) -> std::io::Result<()> {
    let temporary = files::temporary_beside(path);
    fs::rename(path, &temporary)?;
    files::sync_folder(files::parent(path))?;
    fs::remove_dir_all(&temporary)
}

/// The step of the lowest loss of a finite checkpoint; the newest of equals.
pub(super) fn best(listed: &[(u64, PathBuf)]) -> Option<u64> {
    let loss = |path: &Path| {
        let digests = finite_digests(path)?;
        digests.loss.filter(|loss| loss.is_finite())
    };
    let ranked = listed
        .iter()
        .filter_map(|(step, path)| Some((loss(path)?, *step)));
    ranked
        .min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
        .map(|(_, step)| step)
}

/// The step of the newest checkpoint that says nothing of being NaN or infinite.
fn newest_finite(listed: &[(u64, PathBuf)]) -> Option<u64> {
    let mut newest = listed.iter().rev();
    let found = newest.find(|(_, path)| finite_digests(path).is_some());
    found.map(|(step, _)| *step)
}

/// What a checkpoint states that is finite; `None` of another, and of one that cannot be read.
fn finite_digests(path: &Path) -> Option<Digests> {
    let listing = files::read_settings(&path.join(DIGESTS_FILE)).ok()?;
    let digests: Digests = serde_json::from_slice(&listing).ok()?;
    (!digests.non_finite).then_some(digests)
}

/// The step and the folder of the newest checkpoint under a folder whose parameters are all finite; they are read, as
/// older programs did not write it down.
///
/// # Errors
/// The system's message.
pub(crate) fn newest_with_finite_parameters(parent: &Path) -> Result<Option<(u64, PathBuf)>> {
    let is_finite = |(_, path): &(u64, PathBuf)| {
        let model = files::read(&path.join(hlx_nn::MODEL_FILE)).ok();
        let model = model.filter(|_| finite_digests(path).is_some());
        model.is_some_and(|model| hlx_nn::check_finite(&model).is_ok())
    };
    Ok(list(parent)?.into_iter().rev().find(is_finite))
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

/// What a thread has found; its panic continues here.
pub(crate) fn joined<T>(found: std::thread::Result<T>) -> T {
    found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a checkpoint states, and the SHA-256 of the listing itself.
fn listing(path: &Path) -> Result<(Digests, String)> {
    let path = path.join(DIGESTS_FILE);
    let listing = read(&path)?;
    let digests = Digests::from_bytes(&listing);
    let digests = digests.with_context(|| path.display().to_string())?;
    Ok((digests, sha256_hex(&listing)))
}

/// Where the checkpoint of a step lies among those of a run.
pub fn checkpoint_folder(parent: &Path, step: u64) -> PathBuf {
    parent.join(folder_name(step))
}

fn folder_name(step: u64) -> String {
    format!("step-{step:06}")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    files::read(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(step: u64, loss: f64) -> Digests {
        Digests {
            step,
            specification: 1,
            parameters: "p".into(),
            optimizer: "o".into(),
            config: "c".into(),
            data: "d".into(),
            loss: Some(loss),
            non_finite: false,
            previous: String::new(),
            record: String::new(),
            place: None,
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
    fn names_that_leave_the_checkpoint_are_refused() {
        let parent = folder("names");
        fs::write(parent.join("outside"), b"x").expect("written");
        let names = [
            "../outside",
            "..",
            ".",
            "",
            "a/b",
            "a\\b",
            "/etc/hostname",
            "C:outside",
            "a\0b",
            ".hidden",
        ];
        for (step, name) in names.iter().enumerate() {
            let step = step as u64;
            Checkpoint::write(&parent, digests(step, 1.0), &[]).expect("written");
            let path = checkpoint_folder(&parent, step);
            let mut listing = digests(step, 1.0);
            listing.files.insert((*name).to_owned(), sha256_hex(b"x"));
            let listing = seal::seal(&mut listing).expect("seals");
            fs::write(path.join(DIGESTS_FILE), listing).expect("written");
            let error = format!("{:#}", Checkpoint::open(&path).expect_err("must fail"));
            assert!(error.contains("digests.json: names the file"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        fs::remove_dir_all(parent).expect("cleared");
    }

    fn steps(parent: &Path) -> Vec<u64> {
        let listed = list(parent).expect("lists");
        listed.iter().map(|(step, _)| *step).collect()
    }

    #[test]
    fn the_newest_finite_checkpoint_stays_however_many_come_after_it() {
        let parent = folder("finite");
        // An evaluation of step 1 is the newest that the spoilt ones have.
        for (step, non_finite) in [(1, false), (2, false), (3, true), (4, true), (5, true)] {
            let digests = Digests {
                non_finite,
                ..digests(step, 1.0)
            };
            Checkpoint::write(&parent, digests, &[]).expect("written");
            Retention { newest: 1 }.apply(&parent).expect("applies");
        }
        assert_eq!(steps(&parent), [2, 5]);
        assert_eq!(best(&list(&parent).expect("lists")), Some(2));
        // What is finite again takes its place.
        Checkpoint::write(&parent, digests(6, 0.5), &[]).expect("written");
        Retention { newest: 1 }.apply(&parent).expect("applies");
        assert_eq!(steps(&parent), [6]);
        fs::remove_dir_all(parent).expect("cleared");
    }

    #[test]
    fn the_newest_and_the_best_stay() {
        let parent = folder("retention");
        for (step, loss) in [(1, 3.0), (2, 1.0), (3, 2.0), (4, 2.5), (5, 2.6)] {
            Checkpoint::write(&parent, digests(step, loss), &[]).expect("written");
        }
        fs::create_dir(parent.join(".step-000009.7-0.tmp")).expect("folder");
        Retention { newest: 2 }.apply(&parent).expect("applies");
        files::remove_temporaries(&parent, std::time::Duration::ZERO).expect("cleared");
        assert_eq!(steps(&parent), [2, 4, 5]);
        assert_eq!(fs::read_dir(&parent).expect("reads").count(), 3);
        fs::remove_dir_all(parent).expect("cleared");
    }
}
