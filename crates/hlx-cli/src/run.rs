//! `hlx run`: executes a contract.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_contract::{Contract, Execute, Execution, Prepared};
use hlx_core::files;
use hlx_store::{Handle, Store};
use serde_json::json;

use crate::DeviceArgument;
use crate::numbers::within;
use crate::print::say;
use crate::store::StoreArgument;

#[derive(clap::Args)]
pub struct Arguments {
    /// A contract as JSON (901, a kernel, or 902, a pipeline), or the handle of one in the store.
    contract: String,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    store: StoreArgument,
    /// Run it this many times, and fail unless all runs give one handle.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u32>(1..=u64::from(u32::MAX)), allow_negative_numbers = true)]
    repeat: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a contract from a file of JSON, or from the store by its handle.
pub fn read_contract(store: &Store, text: &str) -> Result<Contract> {
    /// JSON of more than 96 MiB holds no contract of 64.
    const MAX_BYTES: u64 = 96 << 20;
    if text.starts_with("sha256:") {
        let bytes = store.get_bytes(&text.parse::<Handle>()?)?;
        return Contract::from_bytes(&bytes).with_context(|| text.to_owned());
    }
    let named = || text.to_owned();
    let read = files::read_at_most(Path::new(text), MAX_BYTES).with_context(named)?;
    let read = std::str::from_utf8(&read).with_context(named)?;
    Contract::from_json(read).with_context(named)
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let store = arguments.store.open()?;
    let contract = read_contract(&store, &arguments.contract)?;
    let device = arguments.device.open()?;
    let prepared = match &contract {
        Contract::Kernel(kernel) => device.prepare(&store, kernel)?,
        Contract::Pipeline(pipeline) => device.prepare(&store, pipeline)?,
        Contract::Shader(_) => bail!(
            "{}: a shader (contract 900) does nothing alone; a kernel (901) runs one",
            arguments.contract
        ),
    };
    let execution = repeat(&prepared, &store, arguments.repeat)?;
    let handle = contract.handle()?;
    if arguments.json {
        say!("{}", as_json(&contract, &handle, device.info(), &execution))?;
        return Ok(());
    }
    say!("contract  {handle} {}", contract.name())?;
    say!("device    {}", device.info())?;
    for output in &execution.outputs {
        let (port, dtype, shape) = (&output.port, output.dtype, &output.shape);
        say!(
            "output    {} {} of {port}, {dtype} {shape:?}",
            output.handle,
            port.name
        )?;
    }
    say!("result    {}", execution.handle)?;
    match arguments.repeat {
        1 => say!("run       {:.3} ms", execution.run_ms)?,
        n => say!(
            "run       {:.3} ms, the fastest of {n} with this result",
            execution.run_ms
        )?,
    }
    Ok(())
}

/// Runs it, puts the results into the store, and runs it again as often as requested.
fn repeat(prepared: &Prepared, store: &Store, count: u32) -> Result<Execution> {
    let mut first = prepared.run_into(store)?;
    for number in 2..=count {
        let next = prepared.run()?;
        ensure!(
            next.handle == first.handle,
            "run {number} gave {}, the first {}",
            next.handle,
            first.handle
        );
        first.run_ms = first.run_ms.min(next.run_ms);
    }
    Ok(first)
}

fn as_json(
    contract: &Contract,
    handle: &Handle,
    device: &hlx_core::DeviceInfo,
    execution: &Execution,
) -> serde_json::Value {
    let outputs = execution.outputs.iter().map(|output| {
        json!({
            "kernel": output.port.kernel,
            "name": output.port.name,
            "dtype": output.dtype,
            "shape": output.shape,
            "handle": output.handle,
        })
    });
    json!({
        "kind": "run",
        "contract": handle,
        "name": contract.name(),
        "device": device.name,
        "driver": device.driver,
        "outputs": outputs.collect::<Vec<_>>(),
        "result": execution.handle,
        "run_ms": execution.run_ms,
    })
}
