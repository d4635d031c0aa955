//! `crates/hlx-kernels/spv/digests.txt`: which source each committed SPIR-V module was made from.
//!
//! Each line is one module: its name, the digest of its source, the digest of the module. The source's
//! digest covers its text and all it includes, in order, and the header names the compiler; so
//! a plain build can detect a stale module without a compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{activations, constants, families, files, sha256, variants};

/// One shader: its name (`layer_norm/forward`), its source, and where its module is.
pub struct Shader {
    pub name: String,
    pub source: String,
    /// The source and what it includes: what its digest covers.
    text: Vec<u8>,
    /// The folder from which the source includes files.
    pub folder: PathBuf,
    /// The file of the source, or of the table that it was made from.
    pub origin: String,
    pub module: PathBuf,
}

/// The digests of one shader's source and module.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub source: String,
    pub module: String,
}

/// `digests.txt`, read: the compiler it was written with and an entry a shader.
#[derive(Default)]
pub struct Digests {
    pub compiler: String,
    pub entries: BTreeMap<String, Entry>,
}

/// Where a shader's module lies: in the crate that loads it, so that a package of it is whole, and those of
/// examples beside them.
fn module_of(root: &Path, origin: &str, name: &str) -> PathBuf {
    let owner = match name.split('/').next() {
        Some("examples") if origin.starts_with("examples/") => {
            return root.join(format!("{name}.spv"));
        }
        Some("examples" | "peak" | "probe") => "hlx-core",
        Some("arith") => "hlx-proof",
        _ => "hlx-kernels",
    };
    root.join(format!("crates/{owner}/spv/{name}.spv"))
}

/// The modules in the crates' `spv` folders, and those of examples.
pub fn modules(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = files::under(&root.join("examples"), &["spv"])?;
    for name in ["hlx-core", "hlx-kernels", "hlx-proof"] {
        found.extend(files::under(
            &root.join(format!("crates/{name}/spv")),
            &["spv"],
        )?);
    }
    Ok(found)
}

/// Every shader of the tree, by name: the files `shaders/**/*.comp` and `examples/**/*.comp`,
/// and those that tables describe.
pub fn shaders(root: &Path) -> Result<Vec<Shader>, String> {
    let dir = root.join("shaders");
    let mut shaders = BTreeMap::new();
    let mut add = |name: String, source: String, (folder, origin): (PathBuf, String)| {
        let shader = Shader {
            module: module_of(root, &origin, &name),
            name: name.clone(),
            source,
            text: Vec::new(),
            folder,
            origin,
        };
        let twice = shaders.insert(name, shader);
        twice.map_or(Ok(()), |twice| {
            Err(format!("{}: described twice", twice.name))
        })
    };
    let folder_of = |path: PathBuf| path.parent().unwrap_or(&dir).to_path_buf();
    for row in variants::sources(root)? {
        let folder = match row.from_root {
            true => dir.clone(),
            false => folder_of(dir.join(&row.name)),
        };
        let origin = format!("{}: {}", variants::LIST, row.name);
        add(row.name, row.text, (folder, origin))?;
    }
    for (name, source) in [families::sources(root)?, activations::sources(root)?].concat() {
        let place = (dir.join("include"), format!("shaders/include: {name}"));
        add(name, source, place)?;
    }
    let examples = files::under(&root.join("examples"), &["comp"])?;
    for path in files::under(&dir, &["comp"])?.into_iter().chain(examples) {
        let below = if path.starts_with(&dir) { &dir } else { root };
        let name = files::relative(below, &path.with_extension(""));
        let (source, origin) = (files::text(&path)?, files::relative(root, &path));
        add(name, source, (folder_of(path), origin))?;
    }
    let mut shaders: Vec<Shader> = shaders.into_values().collect();
    let generated = generated(root)?;
    for shader in &mut shaders {
        let text = text_of(root, shader, &generated)?;
        let version = shader
            .source
            .lines()
            .find(|line| line.starts_with("#version"));
        let version = version.unwrap_or("#version 460").to_owned();
        let first = format!("{version}\n{}", extensions(&text));
        shader.text = [first.as_bytes(), &text].concat();
        shader.source = first + &shader.source.replacen(&version, "", 1);
    }
    Ok(shaders)
}

/// The includes that are made from tables, by name.
pub fn generated(root: &Path) -> Result<[(&'static str, String); 2], String> {
    Ok([
        ("constants.glsl", constants::glsl(root)?),
        ("activation_kinds.glsl", activations::glsl(root)?),
    ])
}

/// The lines by which a source requires what its text, with all that it includes, uses.
fn extensions(text: &[u8]) -> String {
    const EXTENSIONS: [(&str, &str); 2] = [
        ("\n#include ", "GL_GOOGLE_include_directive"),
        ("[[", "GL_EXT_control_flow_attributes"),
    ];
    let text = String::from_utf8_lossy(text);
    let used = EXTENSIONS.iter().filter(|(sign, _)| text.contains(sign));
    used.map(|(_, name)| format!("#extension {name} : require\n"))
        .collect()
}

/// The compiler that the lock file pins, with its fixed target.
pub fn compiler(root: &Path) -> Result<String, String> {
    let lock = files::text(&root.join("Cargo.lock"))?;
    let version = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"glslang-sys\"\n"))
        .and_then(|package| package.split("version = \"").nth(1)?.split('"').next())
        .ok_or("Cargo.lock does not name glslang-sys")?;
    Ok(format!("glslang-sys {version}, Vulkan 1.2, SPIR-V 1.5"))
}

impl Shader {
    /// The digest of the source and of everything it includes, in order, each file once.
    pub fn digest(&self) -> String {
        sha256::hex(&self.text)
    }
}

fn text_of(
    root: &Path,
    shader: &Shader,
    generated: &[(&'static str, String)],
) -> Result<Vec<u8>, String> {
    let mut closure = Closure {
        root,
        generated,
        folder: &shader.folder,
        seen: BTreeSet::new(),
        text: Vec::new(),
    };
    let file = root.join(format!("shaders/{}.comp", shader.name));
    closure.append(&file, shader.source.as_bytes())?;
    Ok(closure.text)
}

/// A source and what it includes, gathered.
struct Closure<'a> {
    root: &'a Path,
    generated: &'a [(&'static str, String)],
    /// The folder of the source.
    folder: &'a Path,
    seen: BTreeSet<String>,
    text: Vec<u8>,
}

impl Closure<'_> {
    fn append(&mut self, file: &Path, bytes: &[u8]) -> Result<(), String> {
        let name = files::relative(self.root, file);
        self.text
            .extend_from_slice(format!("{name} {}\n", bytes.len()).as_bytes());
        self.text.extend_from_slice(bytes);
        for include in includes(&String::from_utf8_lossy(bytes)) {
            let candidates = [file.with_file_name(&include), self.folder.join(&include)];
            let found = candidates.iter().find(|path| path.is_file());
            let path = found.map_or(PathBuf::from(&include), |path| normal(path));
            if !self.seen.insert(files::relative(self.root, &path)) {
                continue;
            }
            let is_made = |(name, _): &&(&str, String)| path.ends_with(name);
            match (found, self.generated.iter().find(is_made)) {
                (Some(_), _) => self.append(&path, &files::bytes(&path)?)?,
                (None, Some((_, text))) => self.append(&path, text.as_bytes())?,
                (None, None) => return Err(format!("{name}: cannot find #include \"{include}\"")),
            }
        }
        Ok(())
    }
}

/// The names in a source's `#include "..."` lines, in order.
fn includes(source: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line
            .trim_start()
            .strip_prefix('#')?
            .trim_start()
            .strip_prefix("include")?;
        Some(rest.split('"').nth(1)?.to_string())
    };
    source.lines().filter_map(name).collect()
}

/// `a/b/../c` as `a/c`, so that one file has one name.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => _ = parts.pop(),
            other => parts.push(other),
        }
    }
    parts
}

impl Digests {
    /// Reads `digests.txt`; a tree without one has no digests.
    pub fn read(root: &Path) -> Result<Digests, String> {
        let path = root.join("crates/hlx-kernels/spv/digests.txt");
        if !path.is_file() {
            return Ok(Digests::default());
        }
        Digests::parse(&files::text(&path)?)
            .map_err(|line| format!("crates/hlx-kernels/spv/digests.txt: cannot read line {line}"))
    }

    fn parse(text: &str) -> Result<Digests, usize> {
        let mut digests = Digests::default();
        for (row, line) in text.lines().enumerate() {
            if let Some(compiler) = line.strip_prefix("# compiler: ") {
                digests.compiler = compiler.to_string();
            } else if !line.starts_with('#') && !line.is_empty() {
                let parts: Vec<&str> = line.split_whitespace().collect();
                let [name, source, module] = parts[..] else {
                    return Err(row + 1);
                };
                let entry = Entry {
                    source: source.to_string(),
                    module: module.to_string(),
                };
                digests.entries.insert(name.to_string(), entry);
            }
        }
        Ok(digests)
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# Shader, SHA-256 of its source with includes, SHA-256 of its module.\n\
             # Written by `cargo xtask shaders`; checked by `cargo xtask lint`.\n",
        );
        text += &format!("# compiler: {}\n", self.compiler);
        for (name, entry) in &self.entries {
            text += &format!("{name} {} {}\n", entry.source, entry.module);
        }
        text
    }

    /// Writes `digests.txt`.
    pub fn write(&self, root: &Path) -> Result<(), String> {
        files::write(
            &root.join("crates/hlx-kernels/spv/digests.txt"),
            self.text().as_bytes(),
        )
    }
}

/// What is stale, missing or left over among the committed modules, one line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let recorded = Digests::read(root)?;
    let shaders = shaders(root)?;
    let mut wrong = Vec::new();
    let compiler = compiler(root)?;
    if !shaders.is_empty() && recorded.compiler != compiler {
        wrong.push(format!(
            "made by {}, the lock file has {compiler}",
            recorded.compiler
        ));
    }
    for shader in &shaders {
        wrong.extend(fault(root, shader, recorded.entries.get(&shader.name))?);
    }
    let names: BTreeSet<&String> = shaders.iter().map(|shader| &shader.name).collect();
    for module in modules(root)? {
        if !shaders.iter().any(|shader| shader.module == module) {
            let module = files::relative(root, &module);
            wrong.push(format!("{module} has no source in shaders/"));
        }
    }
    let gone = recorded.entries.keys().filter(|name| !names.contains(name));
    wrong.extend(gone.map(|name| format!("digests.txt lists {name}, which is gone")));
    if !wrong.is_empty() {
        wrong.push("run `cargo xtask shaders` and commit the crates' spv folders".to_string());
    }
    Ok(wrong)
}

/// What is wrong with one shader's module, if anything.
fn fault(root: &Path, shader: &Shader, entry: Option<&Entry>) -> Result<Option<String>, String> {
    let source = shader.digest();
    if !shader.module.is_file() {
        return Ok(Some(format!("{} has no module", shader.origin)));
    }
    let module = sha256::hex(&files::bytes(&shader.module)?);
    Ok(match entry {
        None => Some(format!("{} is not listed in digests.txt", shader.name)),
        Some(entry) if entry.source != source => Some(format!(
            "{} or an include changed after its module",
            shader.origin
        )),
        Some(entry) if entry.module != module => Some(format!(
            "{} is not what the compiler wrote",
            files::relative(root, &shader.module)
        )),
        Some(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small tree of its own in the system's temporary directory, removed at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            let tree = Tree(root);
            tree.put(
                "Cargo.lock",
                "[[package]]\nname = \"glslang-sys\"\nversion = \"9.9.9\"\n",
            );
            tree.put("shaders/include/a.glsl", "// A.\n#include \"b.glsl\"\n");
            tree.put("shaders/include/b.glsl", "// B.\n");
            tree.put(
                "shaders/f/x.comp",
                "#version 450\n#include \"../include/a.glsl\"\n",
            );
            tree.put("crates/hlx-kernels/spv/f/x.spv", "module");
            tree.put("shaders/variants.txt", "");
            for list in ["unary", "binary", "activations", "constants"] {
                tree.put(&format!("shaders/include/{list}.txt"), "");
            }
            tree
        }

        fn put(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(path, text).expect("written");
        }

        fn record(&self) {
            let shader = &shaders(&self.0).expect("shaders")[0];
            let entry = Entry {
                source: shader.digest(),
                module: sha256::hex(b"module"),
            };
            let entries = BTreeMap::from([(shader.name.clone(), entry)]);
            let compiler = compiler(&self.0).expect("a compiler");
            Digests { compiler, entries }
                .write(&self.0)
                .expect("written");
        }

        fn faults(&self) -> Vec<String> {
            check(&self.0).expect("checked")
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("removed");
        }
    }

    #[test]
    fn notices_a_change_in_an_include_of_an_include() {
        let tree = Tree::new("include");
        tree.record();
        assert_eq!(tree.faults(), Vec::<String>::new());
        tree.put("shaders/include/b.glsl", "// B, changed.\n");
        assert_eq!(
            tree.faults()[0],
            "shaders/f/x.comp or an include changed after its module"
        );
    }

    #[test]
    fn notices_tampered_missing_unlisted_and_left_over_modules() {
        let tree = Tree::new("module");
        assert!(
            tree.faults()
                .iter()
                .any(|line| line == "f/x is not listed in digests.txt")
        );
        tree.record();
        tree.put("crates/hlx-kernels/spv/f/x.spv", "other");
        assert_eq!(
            tree.faults()[0],
            "crates/hlx-kernels/spv/f/x.spv is not what the compiler wrote"
        );
        std::fs::rename(
            tree.0.join("crates/hlx-kernels/spv/f/x.spv"),
            tree.0.join("crates/hlx-kernels/spv/f/y.spv"),
        )
        .expect("renamed");
        assert_eq!(tree.faults()[0], "shaders/f/x.comp has no module");
        assert_eq!(
            tree.faults()[1],
            "crates/hlx-kernels/spv/f/y.spv has no source in shaders/"
        );
    }

    #[test]
    fn notices_another_compiler_and_a_missing_include() {
        let tree = Tree::new("compiler");
        tree.record();
        tree.put(
            "Cargo.lock",
            "[[package]]\nname = \"glslang-sys\"\nversion = \"9.9.10\"\n",
        );
        assert!(tree.faults()[0].starts_with("made by glslang-sys 9.9.9"));
        tree.put("shaders/include/b.glsl", "#include \"none.glsl\"\n");
        let error = check(&tree.0).expect_err("no such include");
        assert_eq!(
            error,
            "shaders/include/b.glsl: cannot find #include \"none.glsl\""
        );
    }

    #[test]
    fn a_source_has_the_extensions_that_its_text_uses() {
        let tree = Tree::new("prologue");
        tree.put("shaders/include/b.glsl", "[[unroll]]\n");
        tree.put("shaders/f/y.comp", "// Y.\nvoid main() {}\n");
        let sources = shaders(&tree.0).expect("shaders");
        let include = "#extension GL_GOOGLE_include_directive : require\n";
        let attributes = "#extension GL_EXT_control_flow_attributes : require\n";
        assert_eq!(
            sources[0].source,
            format!("#version 450\n{include}{attributes}\n#include \"../include/a.glsl\"\n")
        );
        assert_eq!(sources[1].source, "#version 460\n// Y.\nvoid main() {}\n");
    }

    #[test]
    fn a_broken_line_is_named() {
        assert_eq!(Digests::parse("# compiler: c\n\nf/x one\n").err(), Some(3));
    }
}
