//! The notes of a version: its section of CHANGELOG.md.

/// The section of a version, whose heading is `## VERSION` or `## VERSION, DATE`.
///
/// # Errors
/// There is no such section, or nothing in it.
pub fn of_version(changelog: &str, version: &str) -> Result<String, String> {
    let is_its = |heading: &str| heading.split([',', ' ']).next() == Some(version);
    let mut lines = changelog
        .lines()
        .skip_while(|line| !line.strip_prefix("## ").is_some_and(is_its));
    let heading = lines
        .next()
        .ok_or_else(|| format!("CHANGELOG.md: has no section `## {version}`"))?;
    let body: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let body = body.join("\n");
    match body.trim() {
        "" => Err(format!("CHANGELOG.md: the section `{heading}` is empty")),
        body => Ok(format!("# HLX {}\n\n{body}\n", &heading[3..])),
    }
}

#[cfg(test)]
mod tests {
    use super::of_version;

    #[test]
    fn the_notes_are_one_section() {
        let changelog =
            "# Changes\n\n## 0.2.0, 2026-12-01\n\nNew.\n\n### CPU\n\nMore.\n\n## 0.1.0\n\nFirst.\n";
        let notes = of_version(changelog, "0.2.0").expect("notes");
        assert_eq!(
            notes,
            "# HLX 0.2.0, 2026-12-01\n\nNew.\n\n### CPU\n\nMore.\n"
        );
        assert_eq!(
            of_version(changelog, "0.1.0"),
            Ok("# HLX 0.1.0\n\nFirst.\n".to_owned())
        );
        assert!(of_version(changelog, "0.2").is_err());
        assert!(of_version("## 0.3.0\n\n## 0.2.0\nx\n", "0.3.0").is_err());
    }
}
