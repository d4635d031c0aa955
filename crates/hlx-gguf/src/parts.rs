//! The files of one model: `NAME-00001-of-00003.gguf` and its siblings.

use std::path::{Path, PathBuf};

use crate::metadata::Metadata;

/// The number of a file among those of its model, from 0 on.
pub(crate) const NUMBER_KEY: &str = "split.no";
/// The number of files.
pub(crate) const COUNT_KEY: &str = "split.count";
/// The number of tensors in all files.
pub(crate) const TENSORS_KEY: &str = "split.tensors.count";
/// Digits of a number in a name.
const DIGITS: usize = 5;
/// More files than any model has.
const MAX_FILES: usize = 1024;

/// What metadata say of a file's place among others; `None` of a file that is alone.
pub(crate) fn place_of(metadata: &Metadata) -> Result<Option<(usize, usize)>, String> {
    let count = metadata.count(COUNT_KEY)?.unwrap_or(1);
    if count <= 1 {
        return Ok(None);
    }
    if count > MAX_FILES {
        return Err(format!(
            "`{COUNT_KEY}` is {count}, expected at most {MAX_FILES}"
        ));
    }
    let number = metadata.count(NUMBER_KEY)?;
    match number.filter(|&number| number < count) {
        Some(number) => Ok(Some((number, count))),
        None => Err(format!(
            "`{NUMBER_KEY}` is {}, expected a number below {count}",
            number.map_or("missing".to_owned(), |number| number.to_string())
        )),
    }
}

/// The paths of all files of a model, given one.
pub(crate) fn paths_of(path: &Path, number: usize, count: usize) -> Result<Vec<PathBuf>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = ending(number, count);
    let Some(stem) = name.strip_suffix(&end) else {
        return Err(format!(
            "is file {} of {count} of its model, and its name does not end in `{end}`",
            number + 1
        ));
    };
    let path_of = |number| path.with_file_name(format!("{stem}{}", ending(number, count)));
    Ok((0..count).map(path_of).collect())
}

fn ending(number: usize, count: usize) -> String {
    format!("-{:0DIGITS$}-of-{count:0DIGITS$}.gguf", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_found_by_the_names_that_llama_cpp_gives_them() {
        let found = paths_of(Path::new("a/m-00002-of-00003.gguf"), 1, 3).expect("names");
        let names = ["a/m-00001-of-00003.gguf", "a/m-00002-of-00003.gguf"];
        assert_eq!(found[..2], names.map(PathBuf::from));
        let refused = paths_of(Path::new("a/m.gguf"), 1, 3).expect_err("another name");
        assert_eq!(
            refused,
            "is file 2 of 3 of its model, and its name does not end in `-00002-of-00003.gguf`"
        );
    }
}
