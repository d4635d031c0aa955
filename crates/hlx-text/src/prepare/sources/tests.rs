//! Folders with links, which other systems than Unix rarely have.

use std::os::unix::fs::symlink;

use super::*;

/// The names that arguments resolve to, below a folder that has links to itself, twice.
fn names(arguments: &[&str]) -> Vec<String> {
    let root = std::env::temp_dir().join(format!("hlx-loops-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("a/b")).expect("made");
    for name in ["a/one.txt", "a/b/two.txt", "a/b/.hidden"] {
        fs::write(root.join(name), "text").expect("written");
    }
    for link in ["a/b/up", "a/b/again", "a/loop"] {
        symlink(&root, root.join(link)).expect("a link");
    }
    let arguments = arguments.iter().map(|argument| root.join(argument));
    let found = resolve(&arguments.collect::<Vec<_>>(), None, None);
    let found = found.map(|sources| {
        let path = |source: Source| source.path.strip_prefix(&root).map(Path::to_owned);
        let paths = sources.into_iter().flat_map(path);
        paths.map(|path| path.display().to_string()).collect()
    });
    fs::remove_dir_all(&root).expect("removed");
    found.unwrap_or_else(|error| vec![error.to_string()])
}

#[test]
fn a_folder_with_links_to_itself_is_read_once() {
    let both = ["a/b/two.txt", "a/one.txt"];
    assert_eq!(names(&["."]).len(), 2);
    assert_eq!(names(&["a/b", "a/one.txt"]), both);
    assert_eq!(names(&["a/*"]), both);
    assert_eq!(names(&["**/*"]), both);
    assert_eq!(names(&["a/**/two.*"]), ["a/b/two.txt"]);
    assert_eq!(names(&["*/**/b"]), ["a/b/two.txt"]);
    assert!(names(&["**/three"])[0].ends_with("holds no file"));
}
