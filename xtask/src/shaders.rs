//! `cargo xtask shaders`: from constants and GLSL to the committed SPIR-V, and the proof that they match.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, step};
use crate::digests::{self, Digests, Entry, Shader};
use crate::{Outcome, activations, constants, families, files, sha256};

pub const HELP: &str = "\
cargo xtask shaders [--all] [--check]

Writes the constants of shaders/include/constants.txt, the activations of activations.txt and the
operations of unary.txt and binary.txt to Rust, compiles each changed shader (shaders/**/*.comp, the rows of
shaders/variants.txt, the activations and the operations) with the pinned glslang (built at the first
call: about 2.5 CPU minutes, and a C++ compiler is needed) to the spv/ folder of the crate that loads them, validates the modules with
spirv-val where it is installed, lints them, writes the push constants of each family as Rust structs, and
rewrites crates/hlx-kernels/spv/digests.txt.

  --all     compile every shader, changed or not
  --check   write nothing: compile every shader elsewhere and compare with what is committed";

pub fn run(args: &[String]) -> Outcome {
    let (mut all, mut check) = (false, false);
    for arg in args {
        match arg.as_str() {
            "--all" => all = true,
            "--check" => check = true,
            other => return Err(crate::unknown_argument("shaders", other)),
        }
    }
    let root = command::root();
    constants::generate(&root, check)?;
    activations::generate(&root, check)?;
    families::generate(&root, check)?;
    let shaders = digests::shaders(&root)?;
    let recorded = Digests::read(&root)?;
    let compiler = digests::compiler(&root)?;
    let mut todo = Vec::new();
    for shader in &shaders {
        if all || check || recorded.compiler != compiler || !current(shader, &recorded)? {
            todo.push(shader);
        }
    }
    if !todo.is_empty() {
        let program = step("building the shader compiler", || build_compiler(&root))?;
        let scratch = root.join("target/shaders");
        step(
            &format!("compiling {} of {} shaders", todo.len(), shaders.len()),
            || compile(&root, &program, &scratch, &todo),
        )?;
        step("checking the modules", || check_modules(&scratch, &todo))?;
        if check {
            return step("comparing with the committed modules", || {
                compare(&root, &scratch, &todo)
            });
        }
        install(&scratch, &todo)?;
    }
    if !check {
        record(&root, &shaders, compiler)?;
        eprintln!("xtask: {} shaders, {} compiled", shaders.len(), todo.len());
    }
    Ok(0)
}

/// Whether the module on disk is the recorded one, made from the source on disk.
fn current(shader: &Shader, recorded: &Digests) -> Result<bool, String> {
    let Some(entry) = recorded.entries.get(&shader.name) else {
        return Ok(false);
    };
    Ok(shader.module.is_file() && *entry == entry_of(shader)?)
}

fn entry_of(shader: &Shader) -> Result<Entry, String> {
    Ok(Entry {
        source: shader.digest(),
        module: sha256::hex(&files::bytes(&shader.module)?),
    })
}

fn build_compiler(root: &Path) -> Result<PathBuf, String> {
    let mut build = command::quiet_cargo(&["build", "--release", "-p", "shader-compiler"]);
    command::succeed("building the shader compiler", &mut build)?;
    let name = format!("shader-compiler{}", std::env::consts::EXE_SUFFIX);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(root.join(target).join("release").join(name))
}

fn scratch_module(scratch: &Path, shader: &Shader) -> PathBuf {
    scratch.join(format!("{}.spv", shader.name))
}

fn compile(root: &Path, program: &Path, scratch: &Path, shaders: &[&Shader]) -> Result<(), String> {
    let made = scratch.join("include");
    for (name, text) in digests::generated(root)? {
        make_folder_of(&made.join(name))?;
        files::write(&made.join(name), text.as_bytes())?;
    }
    let mut compiler = Command::new(program);
    compiler.arg(made);
    for shader in shaders {
        let module = scratch_module(scratch, shader);
        let source = module.with_extension("comp");
        make_folder_of(&source)?;
        files::write(&source, shader.source.as_bytes())?;
        compiler.arg(source).arg(&shader.folder).arg(module);
    }
    command::capture("the shader compiler", &mut compiler).map(|_| ())
}

/// The validator's rules and HLX's own, before anything is installed.
fn check_modules(scratch: &Path, shaders: &[&Shader]) -> Result<(), String> {
    let validator = command::on_path("spirv-val");
    if !validator {
        eprintln!("xtask: spirv-val is not installed: the modules are not validated");
    }
    let mut wrong = Vec::new();
    for shader in shaders {
        let module = scratch_module(scratch, shader);
        if validator {
            let mut command = Command::new("spirv-val");
            command.args(["--target-env", "vulkan1.2"]).arg(&module);
            match command::capture(&shader.name, &mut command) {
                Err(message) if UNKNOWN.iter().any(|line| message.contains(line)) => {
                    eprintln!(
                        "xtask: {}: this spirv-val is too old for its matrices",
                        shader.name
                    );
                }
                found => wrong.extend(found.err()),
            }
        }
    }
    let named = shaders
        .iter()
        .map(|shader| (shader.name.clone(), scratch_module(scratch, shader)));
    let named: Vec<_> = named.collect();
    wrong.extend(lint(&named)?);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// What a validator older than cooperative matrices (2023.4) says of a module that has some, and one older than bf16 (2025.1).
const UNKNOWN: [&str; 2] = [
    "Invalid capability operand: 6022",
    "Invalid capability operand: 5116",
];

/// Checks modules by the rules of HLX's arithmetic; returns one line per breach.
pub fn lint(modules: &[(String, PathBuf)]) -> Result<Vec<String>, String> {
    shader_lint("lint", None, modules)
}

/// Compares the push-constant structs of crates with what their modules declare.
pub fn compare_structs(root: &Path) -> Result<Vec<String>, String> {
    structs("compare-structs", root)
}

/// Runs a verb for the structs of each crate that loads shaders by `shader!`: hlx-core's few modules need
/// no struct.
fn structs(verb: &str, root: &Path) -> Result<Vec<String>, String> {
    let shaders = digests::shaders(root)?;
    let mut wrong = Vec::new();
    for owner in ["hlx-kernels", "hlx-proof"] {
        let folder = root.join("crates").join(owner).join("spv");
        let loaded = shaders
            .iter()
            .filter(|shader| shader.module.starts_with(&folder));
        let named: Vec<_> = loaded
            .map(|shader| (shader.name.clone(), shader.module.clone()))
            .collect();
        wrong.extend(shader_lint(verb, Some(&folder), &named)?);
    }
    Ok(wrong)
}

/// Runs a verb of tools/shader-lint on modules; returns what it prints, one line per fault.
fn shader_lint(
    verb: &str,
    folder: Option<&Path>,
    modules: &[(String, PathBuf)],
) -> Result<Vec<String>, String> {
    let mut lint = command::quiet_cargo(&["run", "--release", "-p", "shader-lint", "--", verb]);
    lint.args(folder);
    for (name, module) in modules {
        lint.arg(name).arg(module);
    }
    let output = lint.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run shader-lint: {error}"))?;
    let found = String::from_utf8_lossy(&output.stdout);
    let breaches: Vec<String> = found.lines().map(str::to_owned).collect();
    if !output.status.success() && breaches.is_empty() {
        return Err(format!("shader-lint failed with {}", output.status));
    }
    Ok(breaches)
}

fn compare(root: &Path, scratch: &Path, shaders: &[&Shader]) -> Outcome {
    let mut wrong = Vec::new();
    for shader in shaders {
        let fresh = scratch_module(scratch, shader);
        if files::bytes(&shader.module).ok() != Some(files::bytes(&fresh)?) {
            wrong.push(format!(
                "{} is not what its source gives",
                shader.module.display()
            ));
        }
    }
    wrong.extend(compare_structs(root)?);
    if wrong.is_empty() {
        Ok(0)
    } else {
        Err(wrong.join("\n"))
    }
}

fn install(scratch: &Path, shaders: &[&Shader]) -> Result<(), String> {
    for shader in shaders {
        let bytes = files::bytes(&scratch_module(scratch, shader))?;
        make_folder_of(&shader.module)?;
        files::write(&shader.module, &bytes)?;
    }
    Ok(())
}

fn make_folder_of(file: &Path) -> Result<(), String> {
    let Some(dir) = file.parent() else {
        return Ok(());
    };
    std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))
}

/// Writes the digests of all shaders, and removes modules whose source is gone.
fn record(root: &Path, shaders: &[Shader], compiler: String) -> Result<(), String> {
    for module in digests::modules(root)? {
        if !shaders.iter().any(|shader| shader.module == module) {
            std::fs::remove_file(&module)
                .map_err(|error| format!("cannot remove {}: {error}", module.display()))?;
            eprintln!(
                "xtask: removed {}, whose source is gone",
                files::relative(root, &module)
            );
        }
    }
    let entry = |shader: &Shader| Ok((shader.name.clone(), entry_of(shader)?));
    let entries = shaders.iter().map(entry).collect::<Result<_, String>>()?;
    let wrong = structs("structs", root)?;
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    Digests { compiler, entries }.write(root)
}
