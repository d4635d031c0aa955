//! Verification of a run on a thread of its own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hlx_core::Device;
use hlx_train::run::RunFolder;
use hlx_train::verify::{Verification, VerifyOptions};
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::worker::{PyRunWorker, Reporter};
use crate::device::PyDevice;

fn verify(
    reporter: &Reporter,
    run: &Path,
    options: &VerifyOptions,
    device: Option<&PyDevice>,
) -> Result<Value> {
    // What needs no device is said before one is opened.
    RunFolder::open(run)?;
    let device = match device {
        Some(device) => device.open_apart()?,
        None => Device::open_from_env("auto")?,
    };
    let verification = Verification::new(&device, run, options)?;
    let (from, to) = verification.steps();
    let is_torn = verification.is_torn();
    reporter.at(from, to);
    reporter.tell(
        "start",
        json!({
            "device": device.info().to_string(), "from": from, "to": to, "base": verification.base(),
            "torn": is_torn,
        }),
    );
    let report = verification.run_while(&mut |step| {
        reporter.at(step, to);
        !reporter.must_stop()
    })?;
    let mut value = serde_json::to_value(&report)?;
    value["torn"] = json!(is_torn);
    Ok(value)
}

/// Starts the verification of a run.
#[pyfunction]
#[pyo3(signature = (run, from_step, to_step, data, micro_batch_size, device))]
pub fn start_verification(
    run: PathBuf,
    from_step: Option<u64>,
    to_step: Option<u64>,
    data: Option<PathBuf>,
    micro_batch_size: Option<usize>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyRunWorker> {
    let options = VerifyOptions {
        from: from_step,
        to: to_step,
        data_path: data,
        micro_batch_size,
    };
    let device = PyDevice::chosen(device)?;
    PyRunWorker::start("verify", move |reporter| {
        verify(reporter, &run, &options, device.as_ref())
    })
}
