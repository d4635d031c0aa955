//! The list of files that tools/release packs.

use std::fmt::Write as _;
use std::path::Path;

use crate::dist::PROGRAMS;
use crate::files;

/// The files of an archive: mode, name, and where the bytes are.
#[derive(Default)]
pub struct List(String);

impl List {
    /// Adds a file with a mode in octal digits.
    pub fn add(&mut self, mode: &str, name: &str, source: &Path) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{mode}\t{name}\t{}", source.display());
    }

    /// Adds a folder's programs, whose names end in a suffix, below `prefix`.
    pub fn add_programs(&mut self, prefix: &str, suffix: &str, folder: &Path) {
        for program in PROGRAMS {
            let file = format!("{program}{suffix}");
            self.add("755", &format!("{prefix}{file}"), &folder.join(&file));
        }
    }

    /// Writes the list.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        files::write(file, self.0.as_bytes())
    }
}

/// The configurations and the corpus, which they find at `../data`.
pub fn add_data(list: &mut List, root: &Path, prefix: &str) -> Result<(), String> {
    for config in files::under(&root.join("configs"), &["toml"])? {
        list.add(
            "644",
            &format!("{prefix}configs/{}", file_name(&config)),
            &config,
        );
    }
    let corpus = "data/ascii-specialist.jsonl";
    list.add("644", &format!("{prefix}{corpus}"), &root.join(corpus));
    Ok(())
}

/// The last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
