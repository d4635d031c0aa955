//! `hlx store`: bytes and tensors under their SHA-256, from the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::files;
use hlx_store::{Content, Dtype, GcOptions, Handle, Store};
use serde_json::{Value, json};

use crate::numbers::within;
use crate::output::output_beside;
use crate::print::{self, say};

/// The option that selects the store.
#[derive(clap::Args)]
pub struct StoreArgument {
    /// The store's folder; by default HLX_STORE, else hlx/store in the user's data folder.
    #[arg(long, global = true, value_name = "FOLDER")]
    store: Option<PathBuf>,
}

impl StoreArgument {
    /// Opens the store of the folder, or the user's.
    pub fn open(&self) -> Result<Store> {
        Ok(match &self.store {
            Some(folder) => Store::open(folder)?,
            None => Store::open_default()?,
        })
    }
}

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArgument,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Store a file's bytes and print their handle.
    Put {
        /// The file.
        file: PathBuf,
        /// Store the bytes as a tensor of this dtype: f32, u32, bf16, ...
        #[arg(long, requires = "shape")]
        dtype: Option<String>,
        /// The tensor's extents, outermost first, with commas between them.
        #[arg(long, requires = "dtype", value_delimiter = ',')]
        shape: Vec<usize>,
    },
    /// Write an object's data to a file, or to the standard output.
    Get {
        /// The object.
        handle: String,
        /// The file; it is made or replaced once the object is verified.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Hash one object, or all, and compare with the handles.
    Verify {
        /// The object; without it, every one.
        handle: Option<String>,
        /// Print one line of JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// List the objects, and the pins.
    List {
        /// Print one line of JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Remove the objects that no pin names, and what crashes left.
    Gc {
        /// Do not remove what was put within this many seconds before now.
        #[arg(long, value_name = "SECONDS", default_value_t = hlx_store::GC_MIN_AGE.as_secs(), value_parser = within::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
        older_than: u64,
        /// Keep this object too; may be given many times.
        #[arg(long, value_name = "HANDLE")]
        keep: Vec<String>,
        /// Print what would be removed, and remove nothing.
        #[arg(long)]
        dry_run: bool,
        /// Print one line of JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Keep an object under a name.
    Pin {
        /// Letters, digits, `.`, `_` and `-`.
        name: String,
        /// The object.
        handle: String,
    },
    /// Remove a pin; a later `gc` removes its object.
    Unpin {
        /// The pin.
        name: String,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let store = arguments.store.open()?;
    match &arguments.verb {
        Verb::Put { file, dtype, shape } => put(&store, file, dtype.as_deref(), shape),
        Verb::Get { handle, out } => get(&store, &handle.parse()?, out.as_deref()),
        Verb::Verify {
            handle: Some(handle),
            json,
        } => {
            let info = store.verify(&handle.parse()?)?;
            match json {
                true => say!("{}", verified(1, info.length, &[])),
                false => say!(
                    "{handle} is whole: {}",
                    describe(&info.content, info.length)
                ),
            }
        }
        Verb::Verify { handle: None, json } => verify_all(&store, *json),
        Verb::List { json: false } => list(&store),
        Verb::List { json: true } => say!("{}", listed(&store)?),
        Verb::Gc {
            older_than,
            keep,
            dry_run,
            json,
        } => {
            let options = GcOptions {
                min_age: Duration::from_secs(*older_than),
                dry_run: *dry_run,
            };
            let keep: Vec<Handle> = keep
                .iter()
                .map(|handle| handle.parse())
                .collect::<Result<_, _>>()?;
            collect(&store, &keep, options, *json)
        }
        Verb::Pin { name, handle } => Ok(store.pin(name, &handle.parse()?)?),
        Verb::Unpin { name } => Ok(store.unpin(name)?),
    }
}

fn put(store: &Store, path: &Path, dtype: Option<&str>, shape: &[usize]) -> Result<()> {
    let content = match dtype {
        Some(dtype) => Content::tensor(dtype.parse::<Dtype>()?, shape),
        None => Content::Bytes,
    };
    let named = || path.display().to_string();
    let mut file = files::open(path).with_context(named)?;
    let metadata = file.metadata().with_context(named)?;
    ensure!(metadata.is_file(), "{}: is no regular file", named());
    let handle = store
        .put_reader(content, metadata.len(), &mut file)
        .with_context(named)?;
    say!("{handle}")
}

fn get(store: &Store, handle: &Handle, out: Option<&Path>) -> Result<()> {
    let Some(path) = out else {
        store.verify(handle)?;
        return print::through(|out| Ok(store.copy_to(handle, out).map(drop)?));
    };
    let out = output_beside(path, store)?;
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        // What is written straight cannot be taken back.
        store.verify(handle)?;
    }
    let copied = out.write_with(|file| Ok::<_, anyhow::Error>(store.copy_to(handle, file)?));
    let info = copied.map_err(|error| match error.is::<io::Error>() {
        true => error.context(format!("{}: cannot be written", path.display())),
        false => error,
    })?;
    if !out.is_stdout() {
        say!(
            "{}: {}",
            path.display(),
            describe(&info.content, info.length)
        )?;
    }
    Ok(())
}

/// The line of JSON on a verification.
fn verified(n_objects: usize, whole_bytes: u64, faults: &[String]) -> Value {
    json!({
        "kind": "store_verify", "objects": n_objects, "whole_bytes": whole_bytes, "faults": faults,
    })
}

fn verify_all(store: &Store, as_json: bool) -> Result<()> {
    let report = store.verify_all(|_, _| ())?;
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    let (n_objects, n_faults) = (report.n_objects, faults.len());
    let printed = match as_json {
        true => say!("{}", verified(n_objects, report.whole_bytes, &faults)),
        false => faults.iter().try_for_each(|fault| say!("{fault}")),
    };
    if n_faults > 0 {
        let store = store.path().display();
        bail!("{store}: {n_faults} faults among {n_objects} objects");
    }
    printed?;
    if as_json {
        return Ok(());
    }
    let bytes = report.whole_bytes;
    say!("{n_objects} objects are whole, {bytes} bytes")
}

fn list(store: &Store) -> Result<()> {
    for entry in store.list()? {
        match entry.content {
            Ok((content, length)) => say!("{} {}", entry.handle, describe(&content, length))?,
            Err(error) => say!("{error}")?,
        }
    }
    for (name, handle) in store.pins()? {
        say!("pin {name} {handle}")?;
    }
    Ok(())
}

/// The line of JSON on what a store holds.
fn listed(store: &Store) -> Result<Value> {
    let mut objects = Vec::new();
    for entry in store.list()? {
        let handle = entry.handle.to_string();
        objects.push(match entry.content {
            Ok((Content::Bytes, length)) => json!({ "handle": handle, "bytes": length }),
            Ok((Content::Tensor { dtype, shape }, length)) => json!({
                "handle": handle, "bytes": length, "dtype": dtype.to_string(), "shape": shape,
            }),
            Err(error) => json!({ "handle": handle, "fault": error.to_string() }),
        });
    }
    let pins = store.pins()?.into_iter();
    let pins = pins.map(|(name, handle)| json!({ "name": name, "handle": handle.to_string() }));
    Ok(json!({
        "kind": "store", "objects": objects, "pins": pins.collect::<Vec<_>>(),
    }))
}

fn collect(store: &Store, keep: &[Handle], options: GcOptions, as_json: bool) -> Result<()> {
    let report = store.gc_with(keep, options)?;
    if as_json {
        let removed: Vec<String> = report.removed.iter().map(ToString::to_string).collect();
        let line = json!({
            "kind": "store_gc", "dry_run": options.dry_run, "removed": removed,
            "leftovers": report.n_temporaries, "freed_bytes": report.freed_bytes,
            "held": report.n_held, "young": report.n_young,
        });
        return say!("{line}");
    }
    for handle in &report.removed {
        say!("{handle}")?;
    }
    say!(
        "{} {} objects and {} leftover files, {} bytes; {} kept by name, {} too young",
        if options.dry_run {
            "would remove"
        } else {
            "removed"
        },
        report.removed.len(),
        report.n_temporaries,
        report.freed_bytes,
        report.n_held,
        report.n_young
    )?;
    Ok(())
}

fn describe(content: &Content, length: u64) -> String {
    match content {
        Content::Bytes => format!("{length} bytes"),
        Content::Tensor { dtype, shape } => format!("{dtype} {shape:?}, {length} bytes"),
    }
}
