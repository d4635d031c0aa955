//! What a program is made of as a CycloneDX 1.6 document in JSON.
//!
//! It has no time and no serial number, so that one source has one document.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::crates::{Arguments, Crate, Crates};

/// Writes the document.
///
/// # Errors
/// What Cargo says, a document that cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let document = document(&arguments.crates()?);
    let text = serde_json::to_string_pretty(&document)? + "\n";
    fs::write(&arguments.out, text).with_context(|| arguments.out.display().to_string())
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
    use super::document;
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
