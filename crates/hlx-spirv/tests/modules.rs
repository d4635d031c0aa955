//! Every module of HLX's is read, follows the arithmetic's rules, and has an interface.

use std::path::{Path, PathBuf};

use hlx_spirv::join::{Assembler, Library};

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
fn every_module_is_read_and_follows_the_rules() {
    for (path, bytes) in modules() {
        let name = path.display().to_string();
        // As shaders are called: by their folder and stem.
        let parts: Vec<_> = path
            .iter()
            .rev()
            .take(2)
            .map(|part| part.to_string_lossy())
            .collect();
        let shader = format!("{}/{}", parts[1], parts[0].trim_end_matches(".spv"));
        assert_eq!(
            hlx_spirv::arithmetic::check(&shader, &bytes),
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

/// The formula of every element-wise operation can become part of another module, which follows the
/// arithmetic's rules.
#[test]
fn formulas_of_elements_go_into_other_modules() {
    let folders = ["spv/unary", "spv/binary", "spv/select"];
    let mut taken = 0;
    for (path, bytes) in modules() {
        if !folders
            .iter()
            .any(|of| path.parent().is_some_and(|parent| parent.ends_with(of)))
        {
            continue;
        }
        let name = path.display().to_string();
        let words = hlx_spirv::words(&bytes).expect("whole words");
        let library = Library::read(&words).unwrap_or_else(|e| panic!("{name}: {e}"));
        let apply = library
            .function("apply")
            .unwrap_or_else(|| panic!("{name} has no formula"));
        let parameters = library
            .parameters(apply)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(parameters <= 2, "{name} reads {parameters} parameters");
        let mut assembler = Assembler::new();
        assembler.push_constants(4);
        let first = (parameters > 0).then_some(2);
        let taken_out = assembler.import(&library, apply, &[(992, 0)], first);
        let taken_out = taken_out.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!((1..=3).contains(&taken_out.parameters.len()), "{name}");
        let again = assembler
            .import(&library, apply, &[(992, 0)], first)
            .expect("known");
        assert_eq!(again.id, taken_out.id, "{name} is copied once");
        let joined = assembler.finish(64);
        let bytes: Vec<u8> = joined.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(hlx_spirv::arithmetic::check(&name, &bytes), [""; 0]);
        let interface = hlx_spirv::interface(&joined).expect("an interface");
        assert_eq!(
            (interface.bindings.len(), interface.push_bytes),
            (0, 16),
            "{name}"
        );
        if parameters > 0 {
            let refused = Assembler::new().import(&library, apply, &[], Some(0));
            assert!(refused.is_err(), "{name}: there are no push constants");
        }
        taken += 1;
    }
    assert!(taken >= 69, "{taken} formulas");
}

#[test]
fn a_frame_is_no_formula() {
    let of_name = |(path, _): &(PathBuf, Vec<u8>)| path.ends_with("unary/exp.spv");
    let (_, bytes) = modules().into_iter().find(of_name).expect("a module");
    let library = Library::read(&hlx_spirv::words(&bytes).expect("words")).expect("a library");
    assert_eq!(library.function("no_such_function"), None);
    let frame = library
        .function("hlx_load_quad")
        .expect("part of the frame");
    let reason = library.parameters(frame).expect_err("reads buffers").0;
    assert!(
        reason.contains("cannot be taken out of its module"),
        "{reason}"
    );
}
