//! What a program is made of: the crates that Cargo names for it, with their checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The program, and where the document goes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The repository.
    #[arg(long)]
    root: PathBuf,
    /// The package of the program.
    #[arg(long, default_value = "hlx-cli")]
    package: String,
    /// Rust's name of the system that the program is built for.
    #[arg(long)]
    target: String,
    /// The document.
    #[arg(long)]
    pub out: PathBuf,
}

/// A crate of the program.
#[derive(Clone, Debug)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence as an SPDX expression, if it has one.
    pub licence: Option<String>,
    /// The folder of its sources.
    pub folder: PathBuf,
    /// Where it comes from: a registry, or none for a crate of the repository.
    pub source: Option<String>,
    /// Its repository's address, if it has one.
    pub repository: Option<String>,
    /// What it says of itself.
    pub description: String,
    /// SHA-256 of its package, of Cargo.lock.
    pub checksum: Option<String>,
    /// The indexes of the crates that it depends on.
    pub depends_on: Vec<usize>,
}

/// The crates, sorted by name and version, and the index of the program.
pub struct Crates {
    /// The crates.
    pub all: Vec<Crate>,
    /// The program's index.
    pub root: usize,
}

impl Arguments {
    /// Reads what Cargo knows of the program: what its build for the system links and runs, without what tests need.
    ///
    /// # Errors
    /// Cargo's own, a package that is not there.
    pub fn crates(&self) -> Result<Crates> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        cargo.args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            &self.target,
        ]);
        let output = cargo.output().context("cargo metadata")?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "cargo metadata: {}",
            message.trim()
        );
        let lock = std::fs::read_to_string(self.root.join("Cargo.lock")).context("Cargo.lock")?;
        read(
            &serde_json::from_slice(&output.stdout)?,
            &checksums(&lock),
            &self.package,
        )
    }
}

/// The checksums of Cargo.lock by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
    let package = |text: &str| {
        let of = |key: &str| text.lines().find(|line| line.starts_with(key)).map(value);
        Some(((of("name = ")?, of("version = ")?), of("checksum = ")?))
    };
    lock.split("[[package]]").filter_map(package).collect()
}

fn read(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    root: &str,
) -> Result<Crates> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let edges: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let deps = list(&node["deps"]);
            let built = deps.iter().filter(|dep| {
                list(&dep["dep_kinds"])
                    .iter()
                    .any(|kind| kind["kind"] != "dev")
            });
            (
                text(&node["id"]),
                built.map(|dep| text(&dep["pkg"])).collect(),
            )
        })
        .collect();
    let is_root = |package: &&Value| package["name"] == root && package["source"].is_null();
    let start = packages
        .values()
        .find(is_root)
        .with_context(|| format!("{root}: is no package here"))?;
    let (mut reached, mut open) = (BTreeSet::new(), vec![text(&start["id"])]);
    while let Some(id) = open.pop() {
        if reached.insert(id.clone()) {
            open.extend(edges.get(&id).cloned().unwrap_or_default());
        }
    }
    let mut ids: Vec<&String> = reached.iter().collect();
    let key = |id: &str| (text(&packages[id]["name"]), text(&packages[id]["version"]));
    ids.sort_by_key(|id| key(id));
    let index: BTreeMap<&String, usize> =
        ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let all = ids.iter().map(|id| {
        let package = &packages[*id];
        let (name, version) = key(id);
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let mut depends_on: Vec<usize> = edges
            .get(*id)
            .into_iter()
            .flatten()
            .map(|id| index[id])
            .collect();
        depends_on.sort_unstable();
        depends_on.dedup();
        Crate {
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            name,
            version,
            licence: package["license"].as_str().map(spdx),
            folder: manifest.parent().map(PathBuf::from).unwrap_or_default(),
            source: package["source"].as_str().map(str::to_owned),
            repository: package["repository"].as_str().map(str::to_owned),
            description: text(&package["description"])
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
            depends_on,
        }
    });
    Ok(Crates {
        all: all.collect(),
        root: index[&text(&start["id"])],
    })
}

/// Cargo's older way to write alternatives, `MIT/Apache-2.0`, as SPDX has it.
fn spdx(licence: &str) -> String {
    licence.replace('/', " OR ")
}

#[cfg(test)]
mod tests {
    use super::{checksums, read, spdx};
    use serde_json::json;

    #[test]
    fn the_crates_are_those_that_the_program_is_built_of() {
        let package = |name: &str, source: Option<&str>| {
            json!({ "id": name, "name": name, "version": "1.0.0", "source": source, "license": "MIT/Apache-2.0",
                    "manifest_path": format!("/x/{name}/Cargo.toml"), "description": "a\n b" })
        };
        let dep = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                package("hlx-cli", None), package("b", Some("r")), package("c", Some("r")), package("d", None),
            ],
            "resolve": { "nodes": [
                { "id": "hlx-cli", "deps": [dep("b", None), dep("d", Some("dev"))] },
                { "id": "b", "deps": [dep("c", Some("build"))] },
                { "id": "c", "deps": [] }, { "id": "d", "deps": [] },
            ] },
        });
        let lock =
            "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"ab\"\n";
        let crates = read(&metadata, &checksums(lock), "hlx-cli").expect("read");
        let names: Vec<&str> = crates.all.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "hlx-cli"]);
        assert_eq!(crates.root, 2);
        assert_eq!(crates.all[0].checksum.as_deref(), Some("ab"));
        assert_eq!(
            (
                &crates.all[0].depends_on,
                crates.all[0].description.as_str()
            ),
            (&vec![1], "a b")
        );
        assert_eq!(spdx("MIT/Apache-2.0"), "MIT OR Apache-2.0");
        assert!(read(&metadata, &checksums(lock), "none").is_err());
    }
}
