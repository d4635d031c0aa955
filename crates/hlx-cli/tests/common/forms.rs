//! The forms of the JSON that verbs print: which members an object has, by their paths. `fixtures/json_forms.txt` pins
//! them, and docs/json.md names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Objects whose members are names of the data: keys of configurations, files, runs.
const OPEN: [&str; 3] = ["config", "files", "golden"];

/// Paths by the kind of the object that they are in.
pub type Forms = BTreeMap<String, BTreeSet<String>>;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/json_forms.txt")
}

/// The forms that are pinned.
pub fn pinned() -> Forms {
    let text = fs::read_to_string(file()).expect("reads");
    let mut forms = Forms::new();
    let mut kind = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(name) => name.clone_into(&mut kind),
            None => {
                _ = forms
                    .entry(kind.clone())
                    .or_default()
                    .insert(line.to_owned())
            }
        }
    }
    forms
}

/// Adds the paths of an object of a kind. Of a member that is an object at one time and none at another, those in it
/// count.
pub fn add(forms: &mut Forms, kind: &str, value: &Value) {
    let paths = forms.entry(kind.to_owned()).or_default();
    walk(value, String::new(), paths);
    without_outer(paths);
}

/// Takes out the paths of members that others are in.
fn without_outer(paths: &mut BTreeSet<String>) {
    let outer = paths
        .iter()
        .filter(|path| paths.iter().any(|inner| is_in(inner, path)));
    let outer: Vec<String> = outer.cloned().collect();
    outer.iter().for_each(|path| _ = paths.remove(path));
}

/// Whether a path leads into a member.
fn is_in(path: &str, member: &str) -> bool {
    let rest = path.strip_prefix(member);
    rest.is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn walk(value: &Value, path: String, paths: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) if values.iter().any(|one| one.is_object() || one.is_array()) => {
            for one in values {
                walk(one, format!("{path}[]"), paths);
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let name = path.rsplit('.').next().unwrap_or_default();
            let is_open = OPEN.contains(&name);
            for (member, value) in members {
                let member = if is_open { "*" } else { member };
                match path.is_empty() {
                    true => walk(value, member.to_owned(), paths),
                    false => walk(value, format!("{path}.{member}"), paths),
                }
            }
        }
        _ => _ = paths.insert(path),
    }
}

/// Fails unless these forms are those that are pinned, to the member; what is null or empty may have members.
/// `WRITE_FORMS=1` adds them to the file (`--test-threads 1`: all tests write it).
pub fn check(found: &Forms) {
    let mut pinned = pinned();
    if std::env::var_os("WRITE_FORMS").is_some() {
        for (kind, paths) in found {
            let all = pinned.entry(kind.clone()).or_default();
            all.extend(paths.iter().cloned());
            without_outer(all);
        }
        return write(&pinned);
    }
    let none = BTreeSet::new();
    let mut wrong = Vec::new();
    for (kind, paths) in found {
        let expected = pinned.get(kind).unwrap_or(&none);
        let is_open = |path: &&String| paths.iter().any(|outer| is_in(path, outer));
        let gone = expected.difference(paths).filter(|path| !is_open(path));
        wrong.extend(gone.map(|path| format!("{kind}: {path} is gone")));
        let is_outer = |path: &&String| expected.iter().any(|inner| is_in(inner, path));
        let new = paths.difference(expected).filter(|path| !is_outer(path));
        wrong.extend(new.map(|path| format!("{kind}: {path} is new")));
    }
    assert!(
        wrong.is_empty(),
        "members that programs read:\n{}\nA new one belongs into docs/json.md and, by WRITE_FORMS=1, into {}",
        wrong.join("\n"),
        file().display()
    );
}

fn write(forms: &Forms) {
    let sections = forms.iter().map(|(kind, paths)| {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        format!("[{kind}]\n{}\n", paths.join("\n"))
    });
    fs::write(file(), sections.collect::<Vec<_>>().join("\n")).expect("writes");
}
