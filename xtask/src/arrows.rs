//! Which crate may know which: the table of docs/architecture.md, compared with the manifests.

use std::path::Path;

use crate::files;

/// What one crate may depend on, among HLX's own crates and among the restricted external ones.
struct Row {
    name: &'static str,
    hlx: &'static [&'static str],
    rationed: &'static [&'static str],
}

/// From the lowest to the highest. A crate that is not listed here fails the check.
const TABLE: [Row; 20] = [
    Row {
        name: "hlx-spirv",
        hlx: &[],
        rationed: &["rspirv"],
    },
    Row {
        name: "hlx-core",
        hlx: &["hlx-spirv"],
        rationed: &["vulkano", "ash"],
    },
    Row {
        name: "hlx-store",
        hlx: &["hlx-core"],
        rationed: &[],
    },
    Row {
        name: "hlx-gguf",
        hlx: &["hlx-core"],
        rationed: &[],
    },
    Row {
        name: "hlx-kernels",
        hlx: &["hlx-spirv", "hlx-core"],
        rationed: &[],
    },
    Row {
        name: "hlx-contract",
        hlx: &["hlx-spirv", "hlx-core", "hlx-store", "hlx-kernels"],
        rationed: &[],
    },
    Row {
        name: "hlx-proof",
        hlx: &["hlx-core", "hlx-kernels"],
        rationed: &[],
    },
    Row {
        name: "hlx-autograd",
        hlx: &["hlx-core", "hlx-kernels"],
        rationed: &[],
    },
    Row {
        name: "hlx-data",
        hlx: &["hlx-core", "hlx-kernels", "hlx-autograd"],
        rationed: &[],
    },
    Row {
        name: "hlx-text",
        hlx: &["hlx-core", "hlx-gguf", "hlx-kernels"],
        rationed: &[],
    },
    Row {
        name: "hlx-io",
        hlx: &["hlx-core", "hlx-autograd"],
        rationed: &["safetensors"],
    },
    Row {
        name: "hlx-ranks",
        hlx: &[],
        rationed: &[],
    },
    Row {
        name: "hlx-receipt",
        hlx: &["hlx-core"],
        rationed: &[],
    },
    Row {
        name: "hlx-nn",
        hlx: &["hlx-core", "hlx-gguf", "hlx-kernels", "hlx-autograd"],
        rationed: &["safetensors"],
    },
    Row {
        name: "hlx",
        hlx: &[
            "hlx-core",
            "hlx-kernels",
            "hlx-autograd",
            "hlx-data",
            "hlx-text",
            "hlx-io",
            "hlx-nn",
        ],
        rationed: &[],
    },
    Row {
        name: "hlx-train",
        hlx: &[
            "hlx-core",
            "hlx-gguf",
            "hlx-kernels",
            "hlx-proof",
            "hlx-autograd",
            "hlx-data",
            "hlx-text",
            "hlx-ranks",
            "hlx-receipt",
            "hlx-nn",
        ],
        rationed: &["anyhow", "toml"],
    },
    Row {
        name: "hlx-report",
        hlx: &["hlx-core", "hlx-train"],
        rationed: &["anyhow"],
    },
    Row {
        name: "hlx-serve",
        hlx: &[
            "hlx-core",
            "hlx-autograd",
            "hlx-text",
            "hlx-receipt",
            "hlx-nn",
            "hlx-train",
        ],
        rationed: &["anyhow", "clap"],
    },
    Row {
        name: "hlx-cli",
        hlx: &[
            "hlx-core",
            "hlx-store",
            "hlx-gguf",
            "hlx-kernels",
            "hlx-contract",
            "hlx-proof",
            "hlx-autograd",
            "hlx-data",
            "hlx-text",
            "hlx-io",
            "hlx-ranks",
            "hlx-receipt",
            "hlx-nn",
            "hlx-train",
            "hlx-report",
            "hlx-serve",
        ],
        rationed: &[
            "safetensors",
            "anyhow",
            "clap",
            "indicatif",
            "tracing-subscriber",
        ],
    },
    Row {
        name: "hlx-python",
        hlx: &[
            "hlx-core",
            "hlx-receipt",
            "hlx-store",
            "hlx-kernels",
            "hlx-contract",
            "hlx-autograd",
            "hlx-data",
            "hlx-text",
            "hlx-io",
            "hlx-nn",
            "hlx-train",
        ],
        rationed: &["anyhow", "pyo3"],
    },
];

/// Dependencies that belong to some layers only: SPIR-V and Vulkan below, programs, files and Python above.
const RATIONED: [&str; 11] = [
    "rspirv",
    "vulkano",
    "vulkano-shaders",
    "ash",
    "safetensors",
    "anyhow",
    "clap",
    "indicatif",
    "toml",
    "tracing-subscriber",
    "pyo3",
];

/// Every dependency that points the wrong way, one line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let crates = root.join("crates");
    for manifest in files::under(&crates, &["toml"])? {
        if manifest.ends_with("Cargo.toml") {
            let dir = manifest.parent().unwrap_or(&crates);
            let name = files::relative(&crates, dir);
            wrong.extend(check_crate(&name, &dependencies(&files::text(&manifest)?)));
            wrong.extend(check_sources(root, dir, &name)?);
        }
    }
    let benches = root.join("benches");
    let known = dependencies(&files::text(&benches.join("Cargo.toml"))?);
    let vulkan = ["vulkano", "vulkano-shaders", "ash"];
    wrong.extend(
        known
            .iter()
            .filter(|name| vulkan.contains(&name.as_str()))
            .map(|name| format!("benches depends on {name}; it launches kernels alone")),
    );
    let xtask = dependencies(&files::text(&root.join("xtask/Cargo.toml"))?);
    let pages = dependencies(&files::text(&root.join("tools/pages/Cargo.toml"))?);
    let known = xtask.iter().filter(|name| *name != "pages");
    wrong.extend(known.map(|name| format!("xtask depends on {name}; it stays std only")));
    let known = pages.iter();
    wrong.extend(known.map(|name| format!("tools/pages depends on {name}; it stays std only")));
    Ok(wrong)
}

fn check_crate(name: &str, dependencies: &[String]) -> Vec<String> {
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        return vec![format!(
            "crates/{name} is not in the table of xtask/src/arrows.rs"
        )];
    };
    let allowed = |dependency: &str| {
        let own = dependency.starts_with("hlx-") || dependency == "xtask";
        let known = row.hlx.contains(&dependency) || row.rationed.contains(&dependency);
        known || !(own || RATIONED.contains(&dependency))
    };
    let wrong = dependencies
        .iter()
        .filter(|dependency| !allowed(dependency));
    wrong
        .map(|dependency| format!("{name} must not know {dependency}"))
        .collect()
}

/// Vulkan must not come in through a lower crate's re-export either.
fn check_sources(root: &Path, dir: &Path, name: &str) -> Result<Vec<String>, String> {
    let knows = TABLE
        .iter()
        .any(|row| row.name == name && row.rationed.contains(&"vulkano"));
    let mut wrong = Vec::new();
    if !knows {
        for source in files::under(dir, &["rs"])? {
            if files::text(&source)?.contains("vulkano::") {
                wrong.push(format!("{} uses vulkano", files::relative(root, &source)));
            }
        }
    }
    Ok(wrong)
}

/// The names in all dependency tables of a manifest, renamed ones by their real name.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (table, name) = match section.rsplit_once("dependencies.") {
                Some((_, name)) => (false, Some(name)),
                None => (section.ends_with("dependencies"), None),
            };
            inside = table;
            names.extend(name.map(str::to_string));
        } else if inside && !line.starts_with('#') {
            let package = line
                .split("package = \"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let key = line
                .split(['.', '=', ' '])
                .next()
                .filter(|key| !key.is_empty());
            names.extend(package.or(key).map(str::to_string));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind_of_dependency() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\n# note\nhlx-core.workspace = true\n\
                        vk = { package = \"vulkano\", version = \"1\" }\n\n[dev-dependencies]\n\
                        criterion = \"0.8\"\n[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n\
                        [dependencies.clap]\nversion = \"4\"\n[features]\nfast = []\n";
        let names = ["hlx-core", "vulkano", "criterion", "libc", "clap"];
        assert_eq!(dependencies(manifest), names);
    }

    #[test]
    fn arrows_go_one_way() {
        let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        assert!(check_crate("hlx-nn", &names(&["hlx-core", "serde", "safetensors"])).is_empty());
        let wrong = check_crate("hlx-kernels", &names(&["hlx-nn", "vulkano", "anyhow"]));
        let said = [
            "hlx-kernels must not know hlx-nn",
            "hlx-kernels must not know vulkano",
            "hlx-kernels must not know anyhow",
        ];
        assert_eq!(wrong, said);
        assert_eq!(check_crate("hlx-new", &[]).len(), 1);
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (level, row) in TABLE.iter().enumerate() {
            for lower in row.hlx {
                assert!(
                    TABLE[..level].iter().any(|known| known.name == *lower),
                    "{}",
                    row.name
                );
            }
        }
    }
}
