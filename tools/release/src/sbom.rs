//! What a program is made of as a CycloneDX 1.6 document in JSON.
//!
//! It has no time and no serial number, so that one source has one document.

use std::fs;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::crates::{Crate, Crates};

/// The program, where the document goes, and what is beside it.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    program: crate::crates::Arguments,
    /// A tar file of Debian's root file system, whose packages are components, too.
    #[arg(long)]
    base: Option<PathBuf>,
}

/// Writes the document.
///
/// # Errors
/// What Cargo says, a document that cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut document = document(&arguments.program.crates()?);
    if let (Some(base), Some(components)) = (&arguments.base, document["components"].as_array_mut())
    {
        components.extend(packages(&status(base)?));
    }
    let text = serde_json::to_string_pretty(&document)? + "\n";
    let out = &arguments.program.out;
    fs::write(out, text).with_context(|| out.display().to_string())
}

/// The list of installed packages in a tar file.
fn status(base: &Path) -> Result<String> {
    const NAME: &str = "var/lib/dpkg/status";
    let place = || base.display().to_string();
    let file = File::open(base).with_context(place)?;
    let mut archive = tar::Archive::new(BufReader::new(file));
    for entry in archive.entries().with_context(place)? {
        let mut entry = entry.with_context(place)?;
        let is_list = entry.path().with_context(place)?.ends_with(NAME);
        if is_list {
            let mut text = String::new();
            entry.read_to_string(&mut text).with_context(place)?;
            ensure!(!text.is_empty(), "{}: {NAME} is empty", place());
            return Ok(text);
        }
    }
    anyhow::bail!("{}: has no {NAME}", place())
}

/// The components of a list of packages, in its order, which is that of their names.
fn packages(status: &str) -> Vec<Value> {
    let package = |text: &str| {
        let field = |key: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        };
        let (name, version) = (field("Package")?, field("Version")?);
        let purl = format!(
            "pkg:deb/debian/{name}@{}?arch={}",
            version.replace('+', "%2B").replace(':', "%3A"),
            field("Architecture")?
        );
        Some(json!({
            "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
        }))
    };
    status.split("\n\n").filter_map(package).collect()
}

fn document(crates: &Crates) -> Value {
    let others = crates
        .all
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != crates.root);
    let components: Vec<Value> = others.map(|(_, one)| component(one, "library")).collect();
    let edges: Vec<Value> = crates
        .all
        .iter()
        .map(|one| {
            let below: Vec<String> = one
                .depends_on
                .iter()
                .map(|&at| reference(&crates.all[at]))
                .collect();
            json!({ "ref": reference(one), "dependsOn": below })
        })
        .collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": component(&crates.all[crates.root], "application") },
        "components": components,
        "dependencies": edges,
    })
}

/// A package's URL, which names it in other tools, too.
fn reference(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version.replace('+', "%2B"))
}

fn component(one: &Crate, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(one),
        "name": one.name,
        "version": one.version,
        "purl": reference(one),
    });
    if !one.description.is_empty() {
        component["description"] = json!(one.description);
    }
    if let Some(licence) = &one.licence {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    if let Some(checksum) = &one.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = one.repository.as_ref().filter(|_| one.source.is_some()) {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::{document, packages};
    use crate::crates::{Crate, Crates};

    fn one(name: &str, depends_on: Vec<usize>) -> Crate {
        Crate {
            name: name.into(),
            version: "1.0.0+a".into(),
            licence: Some("MIT OR Apache-2.0".into()),
            folder: "/x".into(),
            source: Some("r".into()),
            repository: None,
            description: String::new(),
            checksum: Some("ab".repeat(32)),
            depends_on,
        }
    }

    #[test]
    fn packages_of_debian_have_their_urls() {
        let status = "Package: gcc-12-base\nStatus: install ok installed\nArchitecture: amd64\n\
                      Version: 12.2.0-14+deb12u1\nDescription: a\n b\n\n\
                      Package: zlib1g\nArchitecture: amd64\nVersion: 1:1.2.13\n";
        let found = packages(status);
        let urls: Vec<&str> = found
            .iter()
            .filter_map(|one| one["purl"].as_str())
            .collect();
        assert_eq!(
            urls,
            [
                "pkg:deb/debian/gcc-12-base@12.2.0-14%2Bdeb12u1?arch=amd64",
                "pkg:deb/debian/zlib1g@1%3A1.2.13?arch=amd64",
            ]
        );
        assert_eq!(found[1]["version"], "1:1.2.13");
    }

    #[test]
    fn every_crate_is_a_component_and_every_edge_names_one() {
        let crates = Crates {
            all: vec![one("a", vec![]), one("hlx-cli", vec![0])],
            root: 1,
        };
        let document = document(&crates);
        assert_eq!(document["metadata"]["component"]["name"], "hlx-cli");
        assert_eq!(document["components"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            document["components"][0]["bom-ref"],
            "pkg:cargo/a@1.0.0%2Ba"
        );
        assert_eq!(
            document["dependencies"][1]["dependsOn"][0],
            document["components"][0]["bom-ref"]
        );
        assert!(document.get("serialNumber").is_none());
    }
}
