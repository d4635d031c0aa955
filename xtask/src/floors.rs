//! The floors of every crate: no module imports one above it, and none import each other in a circle.
//!
//! For each folder of the sources, the imports between its parts (files and folders) are computed from all
//! paths in the code. A circle of them is a fault unless [`KNOTS`] names it with a reason. Where [`FLOORS`] lists a
//! folder's floors, an import goes down. What a part takes from its folder's own file is not
//! counted: that file defines what they share, and hands on their names.

mod lists;
mod modules;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::files;
use lists::{FLOORS, Floors, KNOTS, Knot, OF_FAMILIES};
use modules::{Imports, Modules};

/// Every import that goes up or is a part of a circle, one line each, and every entry of the lists that no
/// longer says how it is.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let (mut wrong, mut found) = (Vec::new(), BTreeSet::new());
    for source in sources(root)? {
        let modules = Modules::read(root, &source)?;
        for (folder, imports) in modules.folders() {
            if OF_FAMILIES.iter().any(|one| folder.starts_with(one)) {
                continue;
            }
            let knots = KNOTS.iter().filter(|knot| knot.folder == folder);
            wrong.extend(in_circles(&imports, &knots.collect::<Vec<_>>(), &mut found));
            let floors = FLOORS.iter().filter(|floors| floors.folder == folder);
            for floors in floors {
                wrong.extend(unknown(floors, &modules.parts(&folder)));
                wrong.extend(upward(&imports, floors.floors));
            }
        }
    }
    for knot in KNOTS.iter().filter(|knot| !found.contains(&id(knot))) {
        wrong.push(format!(
            "xtask/src/floors/lists.rs: {} of {} are no circle",
            knot.parts.join(", "),
            knot.folder
        ));
    }
    Ok(wrong)
}

fn id(knot: &Knot) -> (&'static str, &'static str) {
    (knot.folder, knot.parts[0])
}

/// The folders of the workspace's libraries and programs, from the repository's.
fn sources(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for file in files::under(root, &["rs"])? {
        let name = files::relative(root, &file);
        let ends = ["/lib.rs", "/main.rs"];
        let folder = ends.iter().find_map(|end| name.strip_suffix(end));
        let is_source = |one: &&str| one.ends_with("/src") || one.contains("/src/bin/");
        found.extend(folder.filter(is_source).map(str::to_owned));
    }
    Ok(found)
}

/// The imports of circles that no knot names; notes the knots that name one.
fn in_circles(
    imports: &Imports,
    knots: &[&Knot],
    found: &mut BTreeSet<(&'static str, &'static str)>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for circle in circles(imports) {
        let knot = knots.iter().find(|knot| circle.iter().eq(knot.parts));
        if let Some(knot) = knot {
            found.insert(id(knot));
            continue;
        }
        let within = imports.iter().filter(|((from, to), _)| {
            from != to && circle.contains(from.as_str()) && circle.contains(to.as_str())
        });
        wrong.extend(within.map(|((from, to), import)| {
            format!(
                "{} imports {}: {from} and {to} import each other in a circle",
                import.file, import.path
            )
        }));
    }
    wrong
}

/// The sets of parts that reach each other by imports.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|(from, _)| (from.as_str(), reached(imports, from, |_| true)))
        .collect();
    let circle = |part: &str| -> BTreeSet<&str> {
        let back = |other: &&&str| reached.get(**other).is_some_and(|all| all.contains(part));
        reached[part].iter().filter(back).copied().collect()
    };
    let all = reached.keys().map(|part| circle(part));
    all.filter(|circle| circle.len() > 1).collect()
}

/// What a part reaches by imports, on through those that a condition holds for.
fn reached<'a>(
    imports: &'a Imports,
    from: &str,
    goes_on: impl Fn(&str) -> bool,
) -> BTreeSet<&'a str> {
    let of = |part: &str| {
        let part = part.to_owned();
        let own = imports.keys().filter(move |(from, _)| *from == part);
        own.map(|(_, to)| to.as_str())
    };
    let (mut seen, mut open) = (BTreeSet::new(), of(from).collect::<Vec<_>>());
    while let Some(part) = open.pop() {
        if seen.insert(part) && goes_on(part) {
            open.extend(of(part));
        }
    }
    seen
}

/// The imports of listed parts that do not go down, themselves or by way of parts that are not listed.
fn upward(imports: &Imports, floors: &[&[&str]]) -> Vec<String> {
    let floor_of = |part: &str| floors.iter().position(|floor| floor.contains(&part));
    let knots = circles(imports);
    let mut wrong = Vec::new();
    for ((from, to), import) in imports {
        let Some(floor) = floor_of(from) else {
            continue;
        };
        let ends = match floor_of(to) {
            Some(_) => BTreeSet::from([to.as_str()]),
            None => reached(imports, to, |part| floor_of(part).is_none()),
        };
        let tied = knots.iter().find(|knot| knot.contains(from.as_str()));
        let is_up = |end: &&str| {
            let tied = tied.is_some_and(|knot| knot.contains(*end));
            end != from && !tied && floor_of(end).is_some_and(|other| other >= floor)
        };
        if let Some(end) = ends.into_iter().find(is_up) {
            let way = match end == to {
                true => String::new(),
                false => format!(" (by way of {to})"),
            };
            wrong.push(format!(
                "{} imports {}: {end}{way} is not below {from}",
                import.file, import.path
            ));
        }
    }
    wrong
}

/// Names of a list that are not parts of the folder.
fn unknown(floors: &Floors, parts: &BTreeSet<String>) -> Vec<String> {
    let listed = floors.floors.iter().flat_map(|floor| floor.iter());
    let unknown = listed.filter(|name| !parts.contains(**name));
    let folder = floors.folder;
    let line = |name: &&str| format!("xtask/src/floors/lists.rs: {folder} has no {name}");
    unknown.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports between the parts of a crate of these files.
    fn imports(files: &[(&str, &str)]) -> Imports {
        let texts = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let folders = Modules::of("src", &texts.collect::<Vec<_>>()).folders();
        folders.get("src").cloned().unwrap_or_default()
    }

    #[test]
    fn an_import_that_goes_up_has_a_line() {
        let imports = imports(&[
            ("lib.rs", "mod low; mod free; mod high;\npub use high::Top;"),
            ("low.rs", "fn f() { crate::Top::new() }"),
            ("low/inner.rs", "use crate::free;"),
            (
                "free.rs",
                "use crate::high;\n#[cfg(test)]\nmod tests { use crate::low; }",
            ),
            ("high/mod.rs", "pub struct Top;"),
            ("high/a.rs", "use super::b;"),
            ("high/b.rs", ""),
        ]);
        assert_eq!(
            upward(&imports, &[&["low"], &["high"]]),
            [
                "src/low/inner.rs imports crate::free: high (by way of free) is not below low",
                "src/low.rs imports crate::Top::new: high is not below low",
            ]
        );
        assert_eq!(
            upward(&imports, &[&["high", "low"]]).len(),
            2,
            "one floor is not below itself"
        );
        assert!(upward(&imports, &[&["high"], &["low"]]).is_empty());
        assert!(circles(&imports).is_empty());
    }

    #[test]
    fn a_circle_is_found_unless_a_knot_names_it() {
        let imports = imports(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, B};"),
            ("b.rs", "macro_rules! m { () => { $crate::c::f() } }"),
            ("c.rs", "fn f() { super::a::g() }"),
            ("d.rs", "use crate::a;"),
        ]);
        let knot = Knot {
            folder: "src",
            parts: &["a", "b", "c"],
            reason: "",
        };
        let mut found = BTreeSet::new();
        let wrong = in_circles(&imports, &[], &mut found);
        assert_eq!(wrong.len(), 3);
        assert_eq!(
            wrong[2],
            "src/c.rs imports super::a::g: c and a import each other in a circle"
        );
        assert!(in_circles(&imports, &[&knot], &mut found).is_empty());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("src", "a")]);
        assert!(upward(&imports, &[&["a", "b", "c"], &["d"]]).is_empty());
    }
}
