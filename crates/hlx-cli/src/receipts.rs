//! `hlx verify --receipt`: whether answers are what their receipts say.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, ensure};
use hlx_autograd::DType;
use hlx_core::{Arithmetic, Device};
use hlx_receipt::{Certificate, ChainFinding, MOST_BYTES, PublicKey, Receipt, check_chains};
use hlx_train::audit::names_weights;
use hlx_train::generate::TextModel;
use hlx_train::opening::Opening;
use hlx_train::receipts::{
    Check, Checker, Training, Verdict, digests_of, files_of_model, training_of,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::golden;
use crate::print::{self, say};

/// What is checked against what.
pub struct Wanted<'a> {
    /// Files of receipts, and folders of them.
    pub paths: &'a [PathBuf],
    /// The run or the model's folder.
    pub model: &'a Path,
    /// The key that must have signed; without it each receipt's own.
    pub key: Option<&'a Path>,
    /// Whether the run's moving average has answered.
    pub average: bool,
    /// The adapter that was added to the model.
    pub adapter: Option<&'a Path>,
    /// The certificate that the receipts must name.
    pub audit: Option<&'a Path>,
    /// Where it is recomputed.
    pub device: &'a str,
    /// Whether one line of JSON is printed.
    pub json: bool,
}

/// A receipt with what was found of it so far.
struct Given {
    path: PathBuf,
    receipt: Option<Receipt>,
    checks: Vec<Check>,
}

impl Given {
    fn is_valid(&self) -> bool {
        self.receipt.is_some() && self.checks.iter().all(|check| check.ok)
    }

    fn verdict(&self) -> Verdict {
        let n = self
            .receipt
            .as_ref()
            .map_or(0, |one| one.body.token_ids.len());
        Verdict::new(self.checks.clone(), || {
            format!("{n} tokens and their logits are those of this model")
        })
    }
}

/// What was found of all.
struct Found {
    device: String,
    given: Vec<Given>,
    chains: Vec<ChainFinding>,
    training: Option<Training>,
}

impl Found {
    fn is_valid(&self) -> bool {
        let mut faults = self.chains.iter().flat_map(|chain| &chain.faults);
        self.given.iter().all(Given::is_valid) && !faults.any(|fault| fault.is_error())
    }
}

/// Checks receipts, and says what was found.
pub fn verify(wanted: &Wanted<'_>) -> Result<golden::Verdict> {
    let key = wanted.key.map(PublicKey::open).transpose()?;
    let paths = files_of(wanted.paths)?;
    let mut given: Vec<Given> = paths
        .into_iter()
        .map(|path| read(path, key.as_ref()))
        .collect();
    let whole: Vec<Receipt> = given.iter().filter_map(|one| one.receipt.clone()).collect();
    let chains = check_chains(&whole)?;
    let device = Device::open_from_env(wanted.device)?;
    let training = recompute(wanted, &device, &mut given)?;
    if let Some(path) = wanted.audit {
        check_audit(wanted.model, path, training.as_ref(), &mut given)?;
    }
    let found = Found {
        device: device.info().to_string(),
        given,
        chains,
        training,
    };
    let printed = match wanted.json {
        true => say!("{}", to_json(&found)),
        false => print(wanted.model, &found),
    };
    print::or_closed(printed)?;
    Ok(match found.is_valid() {
        true => golden::Verdict::Equal,
        false => golden::Verdict::Differs,
    })
}

/// The files that are given, and those of folders that end in `.json`, by name.
fn files_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let named = || path.display().to_string();
        let before = all.len();
        for entry in std::fs::read_dir(path).with_context(named)? {
            let path = entry.with_context(named)?.path();
            if path.extension().is_some_and(|end| end == "json")
                && !hlx_core::files::is_temporary(&path)
            {
                all.push(path);
            }
        }
        ensure!(
            all.len() > before,
            "{}: holds no receipt (*.json)",
            path.display()
        );
        all[before..].sort();
    }
    Ok(all)
}

/// Reads a receipt and checks what needs no model.
fn read(path: PathBuf, key: Option<&PublicKey>) -> Given {
    let bytes = hlx_core::files::read_at_most(&path, MOST_BYTES as u64);
    let receipt = match bytes.map(|bytes| Receipt::parse(&bytes)) {
        Ok(Ok(receipt)) => receipt,
        Ok(Err(error)) => return damaged(path, &error),
        Err(error) => return damaged(path, &error),
    };
    let signed = receipt.check_signature();
    let signed = signed.map(|()| format!("by the key {}", receipt.signature.public_key));
    let mut checks = vec![Check::of("signature", signed)];
    if let Some(key) = key {
        let found = receipt
            .check_key(key)
            .map(|()| "the one that is given".to_owned());
        checks.push(Check::of("key", found));
    }
    Given {
        path,
        receipt: Some(receipt),
        checks,
    }
}

fn damaged(path: PathBuf, reason: &dyn std::fmt::Display) -> Given {
    Given {
        path,
        receipt: None,
        checks: vec![Check::failed("form", reason.to_string())],
    }
}

/// Recomputes those that are signed, by the model in the type and the arithmetic that they say; returns how the model
/// was trained, if it is a run.
fn recompute(
    wanted: &Wanted<'_>,
    device: &Device,
    given: &mut [Given],
) -> Result<Option<Training>> {
    let mut groups: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (at, one) in given.iter().enumerate().filter(|(_, one)| one.is_valid()) {
        if let Some(receipt) = &one.receipt {
            let body = &receipt.body;
            let kind = (body.model.dtype.clone(), body.arithmetic.clone());
            groups.entry(kind).or_default().push(at);
        }
    }
    let mut training = None;
    let bar = progress_bar(given.len() as u64, wanted.json);
    let files = match groups.is_empty() {
        true => Vec::new(),
        false => files_of_model(wanted.model, wanted.adapter)?,
    };
    let mut n_done = 0;
    for ((dtype, arithmetic), which) in groups {
        let opening = match opening(&dtype, &arithmetic, wanted) {
            Ok(opening) => opening,
            Err(error) => {
                let check = Check::failed("model", format!("{error:#}"));
                which
                    .iter()
                    .for_each(|&at| given[at].checks.push(check.clone()));
                continue;
            }
        };
        let text = TextModel::open(device, wanted.model, opening)?;
        let digests = digests_of(&text, files.clone(), text.tokenizer.chat_template())?;
        let guides = hlx_serve::guides_to(&text);
        let checker = Checker::new(&text, &digests, &guides)?;
        if training.is_none() {
            training = training_of(wanted.model, wanted.average, &digests)?;
        }
        let mut open = Vec::new();
        for at in which {
            let one = &mut given[at];
            if let Some(receipt) = &one.receipt {
                one.checks.extend(checker.check_model(&receipt.body));
            }
            if one.is_valid() {
                open.push(at);
            }
        }
        let bodies = open.iter().filter_map(|&at| given[at].receipt.as_ref());
        let bodies: Vec<_> = bodies.map(|receipt| &receipt.body).collect();
        let checks = checker.recompute(&bodies, &mut |n| bar.set_position(n_done + n as u64))?;
        n_done += open.len() as u64;
        for (at, checks) in open.into_iter().zip(checks) {
            given[at].checks.extend(checks);
        }
    }
    bar.finish_and_clear();
    Ok(training)
}

/// Checks that receipts name a certificate, and that it covers the training of the weights that have answered.
fn check_audit(
    model: &Path,
    path: &Path,
    training: Option<&Training>,
    given: &mut [Given],
) -> Result<()> {
    let bytes = hlx_train::audit::certificate_bytes(path)?;
    let certificate = Certificate::open(&bytes).with_context(|| path.display().to_string())?;
    for one in given.iter_mut().filter(|one| one.is_valid()) {
        let Some(receipt) = &one.receipt else {
            continue;
        };
        let found = match receipt.information.audit {
            Some(named) if named == certificate.sha256 => {
                let weights = &receipt.body.model.weights_sha256;
                names_weights(&certificate, weights, model, training)
            }
            Some(named) => Err(anyhow!(
                "the receipt names the certificate {named}, expected {}",
                certificate.sha256
            )),
            None => Err(anyhow!("the receipt names no certificate of an audit")),
        };
        let detail = format!(
            "of {} steps, by the key {}",
            certificate.audit.run.steps.0, certificate.key
        );
        one.checks.push(Check::of("audit", found.map(|()| detail)));
    }
    Ok(())
}

fn progress_bar(n: u64, json: bool) -> ProgressBar {
    let target = match !json && std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(n), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:32} receipt {pos}/{len}  {elapsed}") {
        bar.set_style(style);
    }
    bar
}

fn opening<'a>(dtype: &str, arithmetic: &str, wanted: &Wanted<'a>) -> Result<Opening<'a>> {
    let dtype = match dtype {
        "f32" => Some(DType::F32),
        "f16" => Some(DType::F16),
        "bf16" => Some(DType::BF16),
        // As a GGUF file has them.
        "blocks" => None,
        _ => anyhow::bail!("dtype is {dtype:?}, expected f32, f16, bf16 or blocks"),
    };
    Ok(Opening {
        dtype,
        average: wanted.average,
        adapter: wanted.adapter,
        arithmetic: Some(arithmetic.parse::<Arithmetic>()?),
    })
}

fn print(model: &Path, found: &Found) -> Result<()> {
    say!("device     {}", found.device)?;
    say!("model      {}", model.display())?;
    if let Some(Training { step, record, .. }) = &found.training {
        say!("trained    {step} steps, record {record} of the run's chain")?;
        let run = model.display();
        say!("           `hlx verify {run}` recomputes the training")?;
    }
    for chain in &found.chains {
        let (from, to) = chain.range;
        let n = chain.n_receipts;
        say!("chain      {}, of the key {}", chain.chain, chain.key)?;
        say!("           {n} receipts, from {from} to {to}")?;
        for fault in &chain.faults {
            say!("           {fault}")?;
        }
    }
    let n_valid = found.given.iter().filter(|one| one.is_valid()).count();
    for one in found.given.iter().filter(|one| !one.is_valid()) {
        say!(
            "differs    {}: {}",
            one.path.display(),
            one.verdict().message
        )?;
    }
    match &found.given[..] {
        [one] if one.is_valid() => {
            for Check { name, detail, .. } in &one.checks {
                say!("{name:<10} {detail}")?;
            }
            say!("equal      {}", one.verdict().message)
        }
        all => {
            let tokens = all.iter().filter(|one| one.is_valid());
            let tokens = tokens.filter_map(|one| one.receipt.as_ref());
            let n_tokens: usize = tokens.map(|receipt| receipt.body.token_ids.len()).sum();
            say!(
                "equal      {n_valid} of {} receipts, {n_tokens} tokens",
                all.len()
            )
        }
    }
}

fn to_json(found: &Found) -> Value {
    let receipts = found.given.iter().map(|one| {
        let mut value = json!(one.verdict());
        value["file"] = json!(one.path.display().to_string());
        value
    });
    let chains = found.chains.iter().map(|chain| {
        let faults: Vec<String> = chain.faults.iter().map(ToString::to_string).collect();
        json!({
            "key": chain.key,
            "chain": chain.chain,
            "receipts": chain.n_receipts,
            "from": chain.range.0,
            "to": chain.range.1,
            "faults": faults,
            "equal": !chain.faults.iter().any(|fault| fault.is_error()),
        })
    });
    json!({
        "kind": "receipts",
        "equal": found.is_valid(),
        "device": found.device,
        "receipts": receipts.collect::<Vec<_>>(),
        "chains": chains.collect::<Vec<_>>(),
        "training": found.training,
    })
}
