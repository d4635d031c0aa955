//! Reads the tables of operations in `shaders/include`: one line each, and comments after `#`.

use std::fs;
use std::path::Path;

/// Reads every line of the table `file` under `root` that is neither empty nor a comment.
///
/// Errors name the file, and the line that `parse` does not take.
pub fn read<T>(
    root: &Path,
    file: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, String> {
    let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
    let mut read = Vec::new();
    for (line_idx, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse(line);
        read.push(entry.ok_or_else(|| format!("{file}:{}: malformed line: {line}", line_idx + 1))?);
    }
    Ok(read)
}

/// The macro that makes the modules of a family's shaders, in lines of up to 100 columns.
pub fn shaders(family: &str, modules: &[String]) -> String {
    let mut text = format!("shader!({family}::{{\n   ");
    let mut length = 3;
    for module in modules {
        if length + module.len() + 2 > 100 {
            text += "\n   ";
            length = 3;
        }
        text += &format!(" {module},");
        length += module.len() + 2;
    }
    text + "\n});\n"
}
