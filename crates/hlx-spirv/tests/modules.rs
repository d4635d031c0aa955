//! Every module of HLX's is read, keeps the arithmetic's rules, and has an interface.

use std::path::{Path, PathBuf};

/// The compiled modules in the crates' `spv` folders.
fn modules() -> Vec<(PathBuf, Vec<u8>)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let owners = ["hlx-core", "hlx-kernels", "hlx-proof"];
    let mut folders: Vec<PathBuf> = owners.map(|name| crates.join(name).join("spv")).to_vec();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "spv") {
                let bytes = std::fs::read(&path).expect("a module");
                found.push((path, bytes));
            }
        }
    }
    assert!(found.len() > 60, "{} modules", found.len());
    found
}

#[test]
fn every_module_is_read_and_keeps_the_rules() {
    for (path, bytes) in modules() {
        let name = path.display().to_string();
        assert_eq!(
            hlx_spirv::arithmetic::check(&name, &bytes),
            [""; 0],
            "{name}"
        );
        let words = hlx_spirv::words(&bytes).expect("whole words");
        let interface = hlx_spirv::interface(&words).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!interface.bindings.is_empty(), "{name} binds no buffer");
        let push = hlx_spirv::push_constants(&words).unwrap_or_else(|e| panic!("{name}: {e}"));
        let end = push
            .last()
            .map_or(0, |last| last.offset + 4 * last.elements.unwrap_or(1));
        assert_eq!(interface.push_bytes, end, "{name}");
    }
}

#[test]
fn a_module_cut_or_flipped_anywhere_is_no_panic() {
    for (_, bytes) in modules().into_iter().step_by(16) {
        let words = hlx_spirv::words(&bytes).expect("whole words");
        for end in (0..words.len()).step_by(words.len() / 61 + 1) {
            let _ = hlx_spirv::interface(&words[..end]);
        }
        for bit in (0..words.len() * 32).step_by(words.len() / 3 + 1) {
            let mut words = words.clone();
            words[bit / 32] ^= 1 << (bit % 32);
            let _ = hlx_spirv::interface(&words);
            let _ = hlx_spirv::push_constants(&words);
            let controls = hlx_spirv::FloatControls {
                preserve_zero_inf_nan: true,
                flush_subnormals: true,
            };
            let _ = hlx_spirv::with_float_controls(&words, controls);
        }
    }
}

#[test]
fn shaders_that_read_the_number_of_workgroups_are_known() {
    let reading = |name: &str| {
        let of_name = |(path, _): &(PathBuf, Vec<u8>)| path.ends_with(name);
        let (_, bytes) = modules().into_iter().find(of_name).expect("a module");
        let words = hlx_spirv::words(&bytes).expect("whole words");
        let interface = hlx_spirv::interface(&words).expect("an interface");
        interface.reads_workgroup_count
    };
    assert!(reading("probe/row_sum.spv"), "through hlx_group()");
    assert!(!reading("matmul/tile_64x64.spv"));
}
