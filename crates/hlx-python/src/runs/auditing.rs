//! The audit of a run on a thread of its own, and the check of a certificate.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::Device;
use hlx_core::files::Output;
use hlx_receipt::{Certificate, PublicKey, SigningKey};
use hlx_train::audit::{
    AuditOptions, Auditing, Expected, OF_THIS_RUN, certificate_bytes, check, report,
    report_of_check,
};
use hlx_train::receipts::Verdict;
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::worker::{PyRunWorker, Reporter};
use crate::device::PyDevice;
use crate::error::of_anyhow;
use crate::wait::run_as;

/// Where the certificate goes, and who signs it.
struct Signed {
    key: SigningKey,
    path: PathBuf,
    file: Output,
}

impl Signed {
    fn new(run: &Path, key: &Path, out: Option<PathBuf>, data: Option<&PathBuf>) -> Result<Self> {
        let signer = SigningKey::open(key)?;
        let path = out.unwrap_or_else(|| run.join("audit.json"));
        let of_run = ["config.toml", "chain.jsonl", "run.json"].map(|name| run.join(name));
        let inputs: Vec<PathBuf> = of_run
            .into_iter()
            .chain([key.to_owned()])
            .chain(data.cloned())
            .collect();
        let file = Output::at(&path).and_then(|output| output.apart_from(&inputs));
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Self {
            key: signer,
            path,
            file,
        })
    }

    /// Writes the certificate of an audit, and reads it again.
    fn write(&self, bytes: &[u8]) -> Result<Certificate> {
        let written = self.file.write(bytes);
        written.with_context(|| format!("{}: cannot be written", self.path.display()))?;
        Ok(Certificate::open(bytes)?)
    }
}

fn audit(
    reporter: &Reporter,
    run: &Path,
    options: &AuditOptions,
    signed: Option<&Signed>,
    device: Option<&PyDevice>,
) -> Result<Value> {
    // What needs no device is said before one is opened.
    let auditing = Auditing::new(run, options)?;
    let device = match device {
        Some(device) => device.open_apart()?,
        None => Device::open_from_env("auto")?,
    };
    let (n, method) = (auditing.n_steps(), auditing.method());
    reporter.at(0, n);
    reporter.tell(
        "start",
        json!({
            "device": device.info().to_string(), "steps": n, "seed": method.seed,
            "stretches": method.n_checked, "of": method.n_stretches,
        }),
    );
    let outcome = auditing.run_while(&device, &mut |step| {
        reporter.at(step, n);
        !reporter.must_stop()
    })?;
    let statement = auditing.statement(&outcome, &device);
    let is_whole = outcome.work.steps.0 == n;
    let certificate = match signed.filter(|_| is_whole && outcome.fault.is_none()) {
        Some(signed) => {
            let bytes = auditing.certify(statement.clone(), &signed.key)?;
            Some((signed.path.as_path(), signed.write(&bytes)?))
        }
        None => None,
    };
    let written = certificate.as_ref().map(|(path, found)| (*path, found));
    let mut value = report(&statement, &outcome, written);
    value["whole"] = json!(is_whole || outcome.fault.is_some());
    value["device"] = json!(device.info().to_string());
    value["method"] = serde_json::to_value(method)?;
    Ok(value)
}

/// Starts the audit of a run.
#[pyfunction]
#[pyo3(signature = (run, stretches, seed, key, out, data, micro_batch_size, device))]
pub fn start_audit(
    py: Python<'_>,
    run: PathBuf,
    stretches: Option<u64>,
    seed: Option<String>,
    key: Option<PathBuf>,
    out: Option<PathBuf>,
    data: Option<PathBuf>,
    micro_batch_size: Option<usize>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyRunWorker> {
    let device = PyDevice::chosen(device)?;
    let prepared = run_as(py, of_anyhow, || {
        let seed = match seed {
            Some(seed) => seed,
            None => hlx_receipt::random_seed()?,
        };
        let signed = key.map(|key| Signed::new(&run, &key, out, data.as_ref()));
        Ok((seed, signed.transpose()?))
    });
    let (seed, signed) = prepared?;
    let options = AuditOptions {
        stretches,
        seed,
        data_path: data,
        micro_batch_size,
    };
    PyRunWorker::start("audit", move |reporter| {
        audit(reporter, &run, &options, signed.as_ref(), device.as_ref())
    })
}

/// Makes a key that signs certificates, a new file that its user alone can read, and FILE.pub beside it; returns the public
/// key.
#[pyfunction]
#[pyo3(signature = (path))]
pub fn new_key(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    run_as(py, of_anyhow, || {
        let key = SigningKey::random()?;
        key.create(&path)?;
        Ok(key.public().to_string())
    })
}

/// Checks a certificate against the folder of a run; the result in JSON.
#[pyfunction]
#[pyo3(signature = (certificate, run, key, data))]
pub fn check_audit(
    py: Python<'_>,
    certificate: PathBuf,
    run: PathBuf,
    key: Option<PathBuf>,
    data: Option<PathBuf>,
) -> PyResult<String> {
    let value = run_as(py, of_anyhow, || {
        let key = key.as_deref().map(PublicKey::open).transpose()?;
        let bytes = certificate_bytes(&certificate)?;
        let expected = Expected {
            key: key.as_ref(),
            data_path: data.as_deref(),
        };
        let (found, checks) = check(&bytes, &run, &expected);
        let verdict = Verdict::new(checks, || OF_THIS_RUN.to_owned());
        Ok(report_of_check(&verdict, found.as_ref()))
    });
    Ok(value?.to_string())
}
