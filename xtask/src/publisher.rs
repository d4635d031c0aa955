//! Who publishes HLX, and where: the one place is `[workspace.metadata.publisher]` of Cargo.toml.

use std::path::Path;

use crate::{dist, files};

const SECTION: &str = "[workspace.metadata.publisher]";

/// What the sources have until somebody publishes them: no repository and no mail can have these names.
const UNSET: [(&str, &str); 2] = [("repository", "OWNER/"), ("maintainer", ".invalid>")];

/// The pages that say how the repository's action is called.
const CALLERS: [&str; 2] = ["action.yml", "docs/install.md"];

/// The publisher.
pub struct Publisher {
    /// Owner and name, as in `OWNER/hlx`.
    repository: String,
    /// Name and address, as packages of Debian have them.
    pub maintainer: String,
}

impl Publisher {
    /// Reads Cargo.toml.
    pub fn read(root: &Path) -> Result<Self, String> {
        Self::of(&files::text(&root.join("Cargo.toml"))?)
    }

    fn of(manifest: &str) -> Result<Self, String> {
        let (_, section) = manifest
            .split_once(SECTION)
            .ok_or_else(|| format!("Cargo.toml: has no section {SECTION}"))?;
        let section = section.split("\n[").next().unwrap_or_default();
        let value = |key: &str| {
            let begin = format!("{key} = \"");
            let line = section.lines().find_map(|line| line.strip_prefix(&begin));
            let value = line.and_then(|rest| rest.strip_suffix('"'));
            value
                .map(str::to_owned)
                .ok_or_else(|| format!("Cargo.toml: {SECTION} has no {key}"))
        };
        Ok(Self {
            repository: value("repository")?,
            maintainer: value("maintainer")?,
        })
    }

    /// A line for each value that is not set yet.
    pub fn unset(&self) -> Vec<String> {
        let values = [&self.repository, &self.maintainer];
        UNSET
            .iter()
            .zip(values)
            .filter(|((_, mark), value)| value.contains(mark))
            .map(|((key, _), value)| format!("{key} is `{value}`: set it in Cargo.toml, {SECTION}"))
            .collect()
    }
}

/// A line for each page that calls the action by another repository or version than Cargo.toml's.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let publisher = Publisher::read(root)?;
    let expected = format!("uses: {}@v{}", publisher.repository, dist::version(root)?);
    let mut wrong = Vec::new();
    for page in CALLERS {
        if !files::text(&root.join(page))?.contains(&expected) {
            wrong.push(format!("{page}: expected `{expected}`, by Cargo.toml"));
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::Publisher;

    #[test]
    fn what_is_not_set_is_named() -> Result<(), String> {
        let of = |repository: &str, maintainer: &str| {
            Publisher::of(&format!(
                "[a]\nrepository = \"wrong\"\n[workspace.metadata.publisher]\nrepository = \"{repository}\"\n\
                 maintainer = \"{maintainer}\"\n\n[b]\nmaintainer = \"wrong\"\n"
            ))
        };
        let set = of("lab/hlx", "A <a@b.org>")?;
        assert_eq!(set.maintainer, "A <a@b.org>");
        assert!(set.unset().is_empty());
        let unset = of("OWNER/hlx", "A <a@b.invalid>")?.unset();
        assert!(
            unset.len() == 2 && unset[1].contains("a@b.invalid"),
            "{unset:?}"
        );
        assert!(Publisher::of("[workspace.metadata.publisher]\nrepository = \"a/b\"\n").is_err());
        assert!(Publisher::of("[workspace]\n").is_err());
        Ok(())
    }
}
