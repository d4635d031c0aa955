//! The Rust blocks of the project's pages: those of a page run in order, in one function. tools/pages says how.
#![allow(missing_docs)]

use std::path::Path;

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Blocks name files from the repository's root. All tests of this program run there.
fn at_root() -> std::io::Result<()> {
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}

/// Whether the tests may use Vulkan, and there is a device.
fn has_vulkan() -> bool {
    let devices = std::env::var("HLX_TEST_DEVICES");
    !devices.is_ok_and(|devices| devices == "cpu") && hlx_core::Device::open("vulkan").is_ok()
}

#[test]
fn excerpts_are_lines_of_their_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut compared = 0;
    for page in pages::pages(&root).expect("reads") {
        for block in page.blocks {
            let pages::Use::Excerpt(path) = &block.usage else {
                continue;
            };
            let place = format!("{}:{}", page.name, block.line);
            let file = std::fs::read_to_string(root.join(path));
            let file = file.unwrap_or_else(|error| panic!("{place}: {path}: {error}"));
            let missing = pages::missing_line(&block.code, &file);
            assert_eq!(
                missing, None,
                "{place}: {path} lacks this line, in its place"
            );
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared} excerpts");
}
