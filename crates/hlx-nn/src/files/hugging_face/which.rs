//! Which files of a folder hold the weights, in `transformers`' order, and what is there in their place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hlx_core::files::place;

use crate::MODEL_FILE;

/// The list of the files of a model in several.
pub(super) const INDEX_FILE: &str = "model.safetensors.index.json";

/// Where a folder's weights are.
pub(super) enum Weights {
    /// In one file.
    Whole(PathBuf),
    /// In the files that an index names.
    Parts(PathBuf),
}

/// Finds the weights: one whole file goes before an index of parts.
pub(super) fn find(folder: &Path) -> Result<Weights, String> {
    let whole = place(folder, MODEL_FILE);
    if whole.exists() {
        return Ok(Weights::Whole(whole));
    }
    let index = place(folder, INDEX_FILE);
    match index.is_file() {
        true => Ok(Weights::Parts(index)),
        false => Err(missing(folder)),
    }
}

/// What is said of an index that lies beside a whole file, unless that is all that it names.
pub(super) fn passed_over(named: &BTreeSet<&String>) -> Option<String> {
    let others = named.iter().any(|name| **name != MODEL_FILE);
    others.then(|| {
        format!(
            "`{MODEL_FILE}` is read, and the parts that `{INDEX_FILE}` names are left out, as transformers does"
        )
    })
}

/// What is said of parts of a model that the index does not name.
pub(super) fn unnamed(folder: &Path, named: &BTreeSet<&String>) -> Option<String> {
    let is_part = |name: &String| name.starts_with("model-") && name.ends_with(".safetensors");
    let mut parts = names_in(folder).into_iter().filter(is_part);
    let one = parts.find(|name| !named.contains(name))?;
    Some(format!(
        "`{one}` is left out: `{INDEX_FILE}` does not name it"
    ))
}

/// Why a folder has no weights, by what it has.
fn missing(folder: &Path) -> String {
    let names = names_in(folder);
    let starts = |start: &str, end: &str| {
        let found = names.iter();
        let mut found = found.filter(|name| name.starts_with(start) && name.ends_with(end));
        found.next()
    };
    let convert = "load it once with transformers and `save_pretrained`, which writes safetensors";
    let reason = if let Some(name) = starts("model-", ".safetensors") {
        format!("{name} is a part of a model, and the list of the parts, {INDEX_FILE}, is missing")
    } else if let Some(name) = starts("model.", ".safetensors") {
        format!("{name} is a variant; name it {MODEL_FILE} to have it read")
    } else if let Some(name) = starts("pytorch_model", "") {
        format!("{name} can hold programs and is not read; {convert}")
    } else if let Some(name) = starts("", ".gguf") {
        format!("{name} is a model by itself; give its path in place of the folder's")
    } else if let Some(name) = starts("consolidated", "") {
        format!("{name} has names of its own and is not read; {convert}")
    } else if let Some(name) = starts("adapter_model", "").or(starts("adapter_config", "")) {
        format!(
            "{name} is of an adapter; give the folder of its model, and this one as the adapter"
        )
    } else if let Some(name) = starts("tf_model", "").or(starts("flax_model", "")) {
        format!("{name} is not read; {convert}")
    } else {
        return format!("No such file: neither {MODEL_FILE} nor {INDEX_FILE} is there");
    };
    format!("there is no {MODEL_FILE}: {reason}")
}

/// The names of a folder's entries, in order.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
