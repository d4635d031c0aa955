//! Checking a certificate against the folder of the run that it names. Nothing is computed again.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use hlx_receipt::{Certificate, PublicKey, Sha256};

use crate::receipts::{Check, Training};
use crate::run::{CHAIN_FILE, Chain, RunFolder};
use crate::verify::{StoredStates, proved_config, proved_corpus};

/// What a certificate must be of and by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected<'a> {
    /// Who must have signed it.
    pub key: Option<&'a PublicKey>,
    /// The corpus, if it is no longer where the run read it.
    pub data_path: Option<&'a Path>,
}

/// Checks a certificate against a run's folder; what follows a failed check is left out.
pub fn check(
    bytes: &[u8],
    run: &Path,
    expected: &Expected<'_>,
) -> (Option<Certificate>, Vec<Check>) {
    let mut checks = Vec::new();
    let opened = Certificate::open(bytes).map_err(anyhow::Error::from);
    let Some(certificate) = passed(&mut checks, "form", opened, |found| {
        format!("signed by the key {}", found.key)
    }) else {
        return (None, checks);
    };
    let of_folder = check_folder(&certificate, run, expected, &mut checks);
    if let Err((name, error)) = of_folder {
        checks.push(Check::failed(name, format!("{error:#}")));
    }
    (Some(certificate), checks)
}

/// Notes a check; `None` if it failed.
fn passed<T>(
    checks: &mut Vec<Check>,
    name: &'static str,
    found: Result<T>,
    detail: impl FnOnce(&T) -> String,
) -> Option<T> {
    match found {
        Ok(found) => {
            checks.push(Check::passed(name, detail(&found)));
            Some(found)
        }
        Err(error) => {
            checks.push(Check::failed(name, format!("{error:#}")));
            None
        }
    }
}

fn check_folder(
    certificate: &Certificate,
    run: &Path,
    expected: &Expected<'_>,
    checks: &mut Vec<Check>,
) -> Result<(), (&'static str, anyhow::Error)> {
    let said = &certificate.audit.run;
    if let Some(key) = expected.key {
        let found = certificate.check_key(key);
        found.map_err(|error| ("key", error.into()))?;
        checks.push(Check::passed("key", "it is the key that was given"));
    }
    let of_chain = || {
        let folder = RunFolder::open(run)?;
        let chain = Chain::read(&folder.chain_path())?;
        check_chain(certificate, &chain)?;
        Ok((folder, chain))
    };
    let (folder, chain) = of_chain().map_err(|error| ("chain", error))?;
    let (n, steps) = (said.n_records.0, said.steps.0);
    let detail = format!(
        "{n} records up to step {steps}, the last is {}",
        said.last_record_sha256
    );
    checks.push(Check::passed("chain", detail));
    let config = proved_config(&folder, &chain).map_err(|error| ("config", error))?;
    let detail = format!("config.toml has the identity {}", said.config_sha256);
    checks.push(Check::passed("config", detail));
    let stored = check_states(certificate, &folder, &chain, &config);
    checks.push(Check::passed(
        "states",
        stored.map_err(|error| ("states", error))?,
    ));
    let path = expected.data_path;
    let is_made = config.data.path.is_empty();
    let there = path.is_some() || is_made || Path::new(&config.data.path).exists();
    let detail = match there {
        true => {
            proved_corpus(&chain, &config, path).map_err(|error| ("data", error))?;
            format!("the data have the digest {}", said.data_sha256)
        }
        false => format!(
            "the data are not at hand and were not compared with the digest {}",
            said.data_sha256
        ),
    };
    checks.push(Check::passed("data", detail));
    Ok(())
}

/// Fails unless a chain begins with the records that were audited.
fn check_chain(certificate: &Certificate, chain: &Chain) -> Result<()> {
    let said = &certificate.audit.run;
    let place = chain.path().display();
    let (n, digest) = (said.n_records.0, said.last_record_sha256.to_string());
    let last = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
    let last = last.and_then(|at| chain.records().get(at));
    let found = last.map_or("none", |last| &last.digest);
    ensure!(
        found == digest,
        "{place}: is not the chain that was audited: record {n} is {found}, the certificate says {digest}"
    );
    let last = last.context("no record")?;
    let origin = chain.origin()?;
    let [first, _] = certificate.audit.method.layout.ends();
    let begins = chain.records().first().map_or(0, |one| one.record.step);
    let pairs = [
        (
            "steps",
            last.record.step.to_string(),
            said.steps.0.to_string(),
        ),
        ("first step", begins.to_string(), first.to_string()),
        (
            "parameters",
            last.record.parameters.clone(),
            said.parameters_sha256.to_string(),
        ),
        (
            "configuration",
            origin.config.clone(),
            said.config_sha256.to_string(),
        ),
        ("data", origin.data.clone(), said.data_sha256.to_string()),
        (
            "arithmetic",
            origin.arithmetic.clone(),
            said.arithmetic.clone(),
        ),
        (
            "specification",
            origin.specification.to_string(),
            said.specification.to_string(),
        ),
    ];
    for (name, found, expected) in pairs {
        ensure!(
            found == expected,
            "{place}: its {name} is {found}, the certificate says {expected}"
        );
    }
    let subjects = [
        (CHAIN_FILE, Sha256::of(&chain.bytes_to(last)?)),
        ("data", said.data_sha256),
    ];
    let named = certificate.subjects.iter();
    let named: Vec<_> = named.map(|one| (one.name.as_str(), one.sha256())).collect();
    ensure!(
        named == subjects,
        "{place}: the certificate's subjects are not this file and these data"
    );
    Ok(())
}

/// Compares the checkpoints that are still there with the chain.
fn check_states(
    certificate: &Certificate,
    folder: &RunFolder,
    chain: &Chain,
    config: &crate::config::Config,
) -> Result<String> {
    let stored = StoredStates::read(folder, chain, config)?;
    if let Some(other) = stored.other {
        let path = other.display();
        return Err(anyhow!(
            "{path}: is not the state that the chain's record of its step is of"
        ));
    }
    let (n, then) = (stored.steps.len(), certificate.audit.work.stored_states.0);
    Ok(format!(
        "{n} checkpoints are those of their records; {then} were there when it was audited"
    ))
}

/// Fails unless a certificate covers the training of weights: those of its last step, or those of a run's record
/// that it
/// covers.
///
/// # Errors
/// One line with what the certificate is of instead.
pub fn names_weights(
    certificate: &Certificate,
    weights: &Sha256,
    run: &Path,
    training: Option<&Training>,
) -> Result<()> {
    let said = &certificate.audit.run;
    if said.parameters_sha256 == *weights {
        return Ok(());
    }
    let training = training.with_context(|| {
        format!(
            "{}: is no run, and its weights are not those after the last step that was audited",
            run.display()
        )
    })?;
    let chain = Chain::read(&RunFolder::open_checkpoint(run)?.0.chain_path())?;
    check_chain(certificate, &chain)?;
    ensure!(
        training.step <= said.steps.0,
        "{}: the weights are those after step {}, and {} steps were audited",
        run.display(),
        training.step,
        said.steps.0
    );
    Ok(())
}
