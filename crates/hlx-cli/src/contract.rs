//! `hlx contract`: makes contracts and shows them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_contract::spirv::Reflection;
use hlx_contract::{Contract, Encoded, Shader, inspect, pipeline_example, product_example};
use hlx_core::files::{self, Output};
use hlx_store::{Handle, Store};
use serde_json::json;

use crate::numbers::within;
use crate::output::output_beside;
use crate::print::{self, say};
use crate::run::read_contract;
use crate::store::StoreArgument;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArgument,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Make the example: a square product, its tensors and its shader in the store.
    Product {
        /// Rows and columns of the matrices.
        #[arg(long, value_name = "N", default_value_t = 1024, value_parser = within::<u32>(1..=16384), allow_negative_numbers = true)]
        size: u32,
        /// The file for the contract; the standard output if left out.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Make the example of a pipeline: that product, and its first matrix added to it.
    Pipeline {
        /// Rows and columns of the matrices.
        #[arg(long, value_name = "N", default_value_t = 64, value_parser = within::<u32>(1..=16384), allow_negative_numbers = true)]
        size: u32,
        /// The file for the contract; the standard output if left out.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Make a shader (contract 900) of SPIR-V, put it into the store and print its interface.
    Shader {
        /// The module.
        file: PathBuf,
        /// Its entry point.
        #[arg(long, value_name = "NAME", default_value = "main")]
        entry_point: String,
        /// Print one line of JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Put a contract into the store and print its handle.
    Put {
        /// The contract, as JSON.
        file: String,
    },
    /// Print a contract as JSON, and its handle.
    Show {
        /// The contract, as JSON, or its handle in the store.
        contract: String,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let store = arguments.store.open()?;
    match &arguments.verb {
        Verb::Product { size, out } => {
            let out = place(out.as_deref(), &store)?;
            let kernel = product_example(&store, *size as usize)?;
            write(out, &kernel.to_json()?)?;
            say_handle(&kernel.handle()?);
        }
        Verb::Pipeline { size, out } => {
            let out = place(out.as_deref(), &store)?;
            let pipeline = pipeline_example(&store, *size as usize)?;
            write(out, &pipeline.to_json()?)?;
            say_handle(&pipeline.handle()?);
        }
        Verb::Shader {
            file,
            entry_point,
            json,
        } => {
            let bytes = files::read(file).with_context(|| file.display().to_string())?;
            let mut shader = Shader::compute(&bytes);
            shader.entry_point.clone_from(entry_point);
            let reflection = inspect(&shader).with_context(|| file.display().to_string())?;
            let handle = shader.put(&store)?;
            if *json {
                return say!("{}", as_json(&handle, &reflection));
            }
            say!("{handle}")?;
            describe(&reflection)?;
        }
        Verb::Put { file } => say!("{}", read_contract(&store, file)?.put(&store)?)?,
        Verb::Show { contract } => {
            let contract: Contract = read_contract(&store, contract)?;
            print::text(&contract.to_json()?)?;
            say_handle(&contract.handle()?);
        }
    }
    Ok(())
}

/// Where a contract is written.
struct Place<'a> {
    path: &'a Path,
    output: Output,
}

/// The file for a contract, if one is named.
fn place<'a>(path: Option<&'a Path>, store: &Store) -> Result<Option<Place<'a>>> {
    let of = |path| {
        let output = output_beside(path, store)?;
        Ok(Place { path, output })
    };
    path.map(of).transpose()
}

fn write(place: Option<Place<'_>>, text: &str) -> Result<()> {
    match place {
        Some(Place { path, output }) => {
            let written = output.write(text.as_bytes());
            written.with_context(|| path.display().to_string())
        }
        None => print::text(text),
    }
}

/// Prints the handle of a contract beside the contract itself.
fn say_handle(handle: &Handle) {
    print::on_stderr(&format!("contract {handle}\n"));
}

/// The line of JSON on a shader's interface.
fn as_json(handle: &Handle, reflection: &Reflection) -> serde_json::Value {
    let bindings = reflection.bindings.values().map(|info| {
        let elements: Vec<&str> = info.elements.iter().map(|kind| kind.name()).collect();
        json!({
            "binding": info.binding, "name": info.name, "elements": elements, "reads": info.reads,
            "writes": info.writes,
        })
    });
    let constants = reflection.constants.iter().map(|(id, constant)| {
        json!({
            "id": id, "name": constant.name, "kind": constant.kind.name(),
            "default": constant.default,
        })
    });
    let words = reflection.push_constants.iter();
    let words = words.map(|word| word.as_ref().map(|kind| kind.name()));
    json!({
        "kind": "shader", "handle": handle.to_string(), "bindings": bindings.collect::<Vec<_>>(),
        "constants": constants.collect::<Vec<_>>(), "push_constants": words.collect::<Vec<_>>(),
        "workgroup_size": reflection.workgroup_size(&[]).ok(),
    })
}

fn describe(reflection: &Reflection) -> Result<()> {
    for info in reflection.bindings.values() {
        let kinds: Vec<&str> = info.elements.iter().map(|kind| kind.name()).collect();
        let access = match (info.reads, info.writes) {
            (true, true) => "read and written",
            (true, false) => "read",
            (false, true) => "written",
            (false, false) => "unused",
        };
        say!(
            "binding {} `{}`: {}, {access}",
            info.binding,
            info.name,
            kinds.join(" or ")
        )?;
    }
    for (id, constant) in &reflection.constants {
        let (name, kind, default) = (&constant.name, constant.kind.name(), constant.default);
        say!("constant {id} `{name}`: {kind}, {default:#x} if left out")?;
    }
    let kind = |word: &Option<_>| {
        word.map_or("padding", |kind: hlx_contract::spirv::ScalarKind| {
            kind.name()
        })
    };
    let words: Vec<&str> = reflection.push_constants.iter().map(kind).collect();
    say!("push constants: [{}]", words.join(", "))?;
    if let Ok(size) = reflection.workgroup_size(&[]) {
        say!("workgroup size, without constants: {size:?}")?;
    }
    Ok(())
}
