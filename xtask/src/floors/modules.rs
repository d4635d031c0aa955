//! The modules of a crate, and which of them import which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;

use super::source::Names;
use crate::files;

/// The path of a module from the crate's root.
type ModulePath = Vec<String>;

/// The modules of a program or a library.
pub struct Modules {
    /// The folder of its root, from the repository's.
    folder: String,
    /// The product's modules, by path.
    modules: BTreeMap<ModulePath, Module>,
}

struct Module {
    /// From the crate's root.
    file: String,
    names: Names,
}

/// A folder's parts, files and folders, and how they import each other: for each pair the first import found.
pub type Imports = BTreeMap<(String, String), Import>;

/// A file and what it imports.
#[derive(Clone, Debug)]
pub struct Import {
    pub file: String,
    pub path: String,
}

impl Modules {
    /// Reads the sources below a folder; the programs in `bin` are others.
    pub fn read(root: &FilePath, folder: &str) -> Result<Self, String> {
        let source = root.join(folder);
        let mut texts = Vec::new();
        for file in files::under(&source, &["rs"])? {
            let name = files::relative(&source, &file);
            if !name.starts_with("bin/") {
                texts.push((name, files::text(&file)?));
            }
        }
        Ok(Self::of(folder, &texts))
    }

    /// The modules of sources with these names and texts.
    pub fn of(folder: &str, texts: &[(String, String)]) -> Self {
        let mut modules: BTreeMap<ModulePath, Module> = BTreeMap::new();
        let mut of_tests = BTreeSet::new();
        for (name, text) in texts {
            let path = module_path(name);
            let names = Names::of(text);
            of_tests.extend(names.test_modules.iter().map(|one| joined(&path, one)));
            let file = name.clone();
            match modules.get_mut(&path) {
                // A library and a program of one crate.
                Some(there) => there.names.paths.extend(names.paths),
                None => drop(modules.insert(path, Module { file, names })),
            }
        }
        let is_test =
            |path: &[String]| (1..=path.len()).any(|length| of_tests.contains(&path[..length]));
        modules.retain(|path, _| !is_test(path));
        let folder = folder.to_owned();
        Self { folder, modules }
    }

    /// For every folder, by its path from the repository's root: how its parts import each other. What a
    /// part takes from the folder's own file, which names them all, is not an import.
    pub fn folders(&self) -> BTreeMap<String, Imports> {
        let mut folders: BTreeMap<String, Imports> = BTreeMap::new();
        for (from, module) in &self.modules {
            for path in &module.names.paths {
                let Some(to) = self.absolute(from, &path.parts) else {
                    continue;
                };
                let to = self.resolve(&to, 0);
                let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                let (Some(importing), Some(imported)) = (from.get(shared), to.get(shared)) else {
                    continue;
                };
                let folder = self.below(&from[..shared]);
                let pair = (importing.clone(), imported.clone());
                let import = || Import {
                    file: format!("{}/{}", self.folder, module.file),
                    path: path.parts.join("::"),
                };
                folders
                    .entry(folder)
                    .or_default()
                    .entry(pair)
                    .or_insert_with(import);
            }
        }
        folders
    }

    /// The parts of a folder: what the floors of it may name.
    pub fn parts(&self, folder: &str) -> BTreeSet<String> {
        let below = |path: &ModulePath| {
            let whole = self.below(path);
            let part = whole
                .strip_prefix(folder)?
                .strip_prefix('/')?
                .split('/')
                .next();
            part.map(str::to_owned)
        };
        self.modules.keys().filter_map(below).collect()
    }

    /// The folder of a module, from the repository's root.
    fn below(&self, path: &[String]) -> String {
        let parts = std::iter::once(&self.folder).chain(path);
        parts.cloned().collect::<Vec<_>>().join("/")
    }

    /// A path from the crate's root; none of one that leads out of the crate.
    fn absolute(&self, from: &[String], parts: &[String]) -> Option<ModulePath> {
        let mut base = match parts.first()?.as_str() {
            "crate" => return Some(parts[1..].to_vec()),
            "self" => return Some([from, &parts[1..]].concat()),
            "super" => from.to_vec(),
            first => {
                let child = joined(from, first);
                let whole = || [from, parts].concat();
                return self.modules.contains_key(&child).then(whole);
            }
        };
        let mut rest = parts;
        while let Some((_, behind)) = rest.split_first().filter(|(first, _)| *first == "super") {
            base.pop();
            rest = behind;
        }
        Some([&base[..], rest].concat())
    }

    /// The module in which what a path names is defined, as far as imports on the way tell.
    fn resolve(&self, path: &[String], depth: usize) -> ModulePath {
        /// More hops than any name takes; imports of each other would go in circles.
        const MOST_HOPS: usize = 16;
        let mut at = ModulePath::new();
        for (place, part) in path.iter().enumerate() {
            let child = joined(&at, part);
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            let names = self.modules.get(&at).map(|module| &module.names.paths);
            let handed_on = names.into_iter().flatten().find(|one| {
                one.name.as_ref() == Some(part) && one.parts.last().is_some_and(|last| last != "*")
            });
            let handed_on = handed_on.and_then(|one| self.absolute(&at, &one.parts));
            match handed_on.filter(|_| depth < MOST_HOPS) {
                Some(further) => {
                    let whole = [&further[..], &path[place + 1..]].concat();
                    return self.resolve(&whole, depth + 1);
                }
                None => return at,
            }
        }
        at
    }
}

fn joined(path: &[String], part: &str) -> ModulePath {
    [path, &[part.to_owned()]].concat()
}

/// The path of a file's module: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_path(name: &str) -> ModulePath {
    let mut parts: ModulePath = name
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    let is_own_file = match parts.len() {
        1 => matches!(parts[0].as_str(), "lib" | "main"),
        _ => parts.last().is_some_and(|last| last == "mod"),
    };
    if is_own_file {
        parts.pop();
    }
    parts
}
