//! The ranks of a run: what they must have in common before the first step, and where each runs.

mod medium;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, anyhow};
use hlx_core::digest::sha256_hex;
use hlx_core::{Device, DeviceKind, SPECIFICATION, files};
use hlx_nn::ShardPlan;
#[cfg(unix)]
pub use hlx_ranks::Mpi;
pub use hlx_ranks::{Group, RankError, Secret, SharedMemory, Sockets};
use serde::{Deserialize, Serialize};

pub use self::medium::{Medium, find_medium};
use crate::config::Config;
use crate::run::{RankPlace, place, shaders_digest};

/// Why a run of several ranks does not begin: all ranks have the same, and one prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// What every rank must have in common, and its place.
#[derive(Serialize, Deserialize)]
struct Identity {
    /// Digests and numbers, by what they are of.
    common: BTreeMap<String, String>,
    /// The configuration, key by key.
    config: BTreeMap<String, String>,
    place: RankPlace,
    /// Whether other ranks may use the same GPU.
    shares_device: bool,
}

/// Lets all ranks know what each made of a question; a process that is alone has its own answer.
///
/// # Errors
/// [`Refused`] on every rank if one has an error, with the first rank's; a rank that is lost.
pub fn agreed(group: &Group, answer: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    if group.is_alone() {
        return answer.map(|answer| vec![answer]);
    }
    let answer = match &answer {
        Ok(bytes) => Ok(&bytes[..]),
        Err(error) => Err(one_line(error)),
    };
    group.agree(answer)?.map_err(|refusal| {
        Refused(match refusal.rank {
            0 => refusal.line,
            rank => format!("{}: {}", group.name(rank), refusal.line),
        })
        .into()
    })
}

/// As [`agreed`], for what each rank retains for itself.
///
/// # Errors
/// As [`agreed`].
pub fn agreed_on<T>(group: &Group, made: Result<T>) -> Result<T> {
    match made {
        Ok(value) => agreed(group, Ok(Vec::new())).map(|_| value),
        Err(error) if group.is_alone() => Err(error),
        Err(error) => Err(agreed(group, Err(error))
            .err()
            .unwrap_or_else(|| anyhow!("refused"))),
    }
}

/// An error as one line, with the control characters of names and messages escaped.
pub fn one_line(error: &anyhow::Error) -> String {
    let line = format!("{error:#}");
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    hlx_core::printable(&line).into_owned()
}

/// Which of the ranks on its host this one is, and how many there are.
pub fn local_rank(group: &Group) -> (usize, usize) {
    let host = group.host(group.rank());
    let is_here = |rank: &usize| group.host(*rank) == host;
    let n = (0..group.n_ranks()).filter(is_here).count();
    let before = (0..group.rank()).filter(is_here).count();
    (group.local_rank().unwrap_or(before), n)
}

/// Fails for a number of ranks that does not divide the shards of a configuration.
///
/// # Errors
/// The numbers.
pub fn check_count(group: &Group, config: &Config) -> Result<()> {
    let shards = ShardPlan::new(config.train.batch_size, config.shards())?;
    shards.of_rank(group.rank(), group.n_ranks())?;
    Ok(())
}

/// Fails unless all ranks run the same program, byte for byte.
///
/// # Errors
/// [`Refused`] with the first rank that differs.
pub fn check_program(group: &Group) -> Result<()> {
    if group.is_alone() {
        return Ok(());
    }
    let digest = || -> Result<Vec<u8>> {
        let path = std::env::current_exe()?;
        let bytes = files::read(&path).with_context(|| path.display().to_string())?;
        Ok(sha256_hex(&bytes).into_bytes())
    };
    let digests = agreed(group, digest())?;
    let differs = digests.iter().position(|digest| *digest != digests[0]);
    differs.map_or(Ok(()), |rank| {
        let [theirs, first] = [rank, 0].map(|rank| String::from_utf8_lossy(&digests[rank]));
        let reason = format!("runs another program: its SHA-256 is {theirs}, rank 0's {first}");
        Err(refused(group, rank, &reason))
    })
}

/// Compares configurations, corpora, checkpoints and devices, and returns where each rank runs.
///
/// # Errors
/// [`Refused`] with the first rank and the first thing that differs, and for two ranks on one GPU that
/// have not said so.
pub fn check_identity(
    group: &Group,
    device: &Device,
    shares_device: bool,
    config: &Config,
    corpus: &str,
    checkpoint: &str,
) -> Result<Vec<RankPlace>> {
    let info = device.info();
    let common = [
        ("the specification", SPECIFICATION.to_string()),
        ("the shaders", shaders_digest()),
        ("the corpus", corpus.to_owned()),
        ("the checkpoint", checkpoint.to_owned()),
    ];
    let place = place::of(config.arithmetic, device);
    let place = place.map(|place| ("the device", place.to_string()));
    let common = common.into_iter().chain(place);
    let mine = Identity {
        common: common
            .map(|(what, value)| (what.to_owned(), value))
            .collect(),
        config: config.shared_keys()?,
        place: RankPlace {
            host: group.host(group.rank()),
            selector: info.selector.clone(),
            device: info.name.clone(),
            driver: info.driver.clone(),
        },
        shares_device: shares_device || info.kind == DeviceKind::Cpu,
    };
    let all = agreed(group, Ok(serde_json::to_vec(&mine)?))?;
    let all = all.iter().map(|bytes| Ok(serde_json::from_slice(bytes)?));
    let all = all.collect::<Result<Vec<Identity>>>()?;
    for (rank, identity) in all.iter().enumerate() {
        let before = &all[..rank];
        if let Some(reason) = difference(&all[0], identity).or_else(|| shared_gpu(before, identity))
        {
            return Err(refused(group, rank, &reason));
        }
    }
    Ok(all.into_iter().map(|identity| identity.place).collect())
}

fn refused(group: &Group, rank: usize, reason: &str) -> anyhow::Error {
    Refused(format!("{}: {reason}", group.name(rank))).into()
}

/// What a rank has that rank 0 has not.
fn difference(first: &Identity, other: &Identity) -> Option<String> {
    let keys = first.config.keys().chain(other.config.keys());
    for key in keys {
        let value = |identity: &Identity| {
            let value = identity.config.get(key).cloned();
            value.unwrap_or_else(|| "not set".to_owned())
        };
        let (there, here) = (value(other), value(first));
        if there != here {
            return Some(format!(
                "has another configuration: {key} is {there} there and {here} on rank 0"
            ));
        }
    }
    first.common.iter().find_map(|(what, here)| {
        let there = other.common.get(what).map_or("not known", String::as_str);
        let there = if there.is_empty() { "none" } else { there };
        let here = if here.is_empty() { "none" } else { here };
        (there != here).then(|| format!("{what} is {there} there and {here} on rank 0"))
    })
}

/// The rank before that uses the same GPU, where one of them has not said that it shares it.
fn shared_gpu(before: &[Identity], identity: &Identity) -> Option<String> {
    let place = &identity.place;
    let rank = before.iter().position(|other| {
        let is_same = (&other.place.host, &other.place.selector) == (&place.host, &place.selector);
        is_same && !(other.shares_device && identity.shares_device)
    })?;
    Some(format!(
        "is on {}, as rank {rank} is; --share-devices lets ranks share one",
        place.selector
    ))
}
