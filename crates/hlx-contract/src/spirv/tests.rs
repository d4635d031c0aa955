//! Validation: every module of HLX's passes, and nothing that is broken does, or panics.

mod oracle;

use std::path::Path;

use super::{ScalarKind, validate};

fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words
        .iter()
        .map(|&bytes| u32::from_le_bytes(bytes))
        .collect()
}

macro_rules! module {
    ($name:literal) => {
        words(include_bytes!(concat!(
            "../../../hlx-kernels/spv/",
            $name,
            ".spv"
        )))
    };
}

fn vector_add() -> Vec<u32> {
    words(include_bytes!(
        "../../../hlx-core/spv/examples/vector_add.spv"
    ))
}

/// The places of an opcode's instructions.
fn places(words: &[u32], opcode: u32) -> Vec<usize> {
    let (mut at, mut found) = (5, Vec::new());
    while let Some(&first) = words.get(at) {
        if first & 0xffff == opcode {
            found.push(at);
        }
        at += (first >> 16) as usize;
    }
    found
}

fn reason(words: &[u32]) -> String {
    validate(words, "main").expect_err("a broken module passes")
}

/// Every module of HLX with its path.
fn modules() -> Vec<(String, Vec<u32>)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for owner in ["hlx-core", "hlx-kernels", "hlx-proof"] {
        let families = std::fs::read_dir(crates.join(owner).join("spv")).expect("a folder");
        for family in families.flatten().filter(|entry| entry.path().is_dir()) {
            let files = std::fs::read_dir(family.path()).expect("a folder");
            let paths = files.flatten().map(|file| file.path());
            for path in paths.filter(|path| path.extension().is_some_and(|e| e == "spv")) {
                let bytes = std::fs::read(&path).expect("a module");
                found.push((path.display().to_string(), words(&bytes)));
            }
        }
    }
    // Folders are listed in any order.
    found.sort();
    assert!(found.len() > 60, "{} modules", found.len());
    found
}

#[test]
fn every_module_of_hlx_passes_but_those_with_matrices_or_dot_products() {
    // What contracts do not take, by the names of the modules that have it.
    let refused = [("matrices", "CooperativeMatrix"), ("dots", "OpSDot")];
    for (name, words) in modules() {
        if let Some((_, what)) = refused.iter().find(|(part, _)| name.contains(part)) {
            let reason = validate(&words, "main").expect_err(&name).to_string();
            assert!(reason.contains(what), "{name}: {reason}");
            continue;
        }
        let found = validate(&words, "main").unwrap_or_else(|reason| panic!("{name}: {reason}"));
        let size = found.workgroup_size(&[]).expect("a size");
        assert!((1..=256).contains(&size.iter().product::<u32>()), "{name}");
        assert!(found.shared_bytes(&[]).expect("bytes") <= 64 << 10);
    }
}

#[test]
fn reflection_finds_what_the_source_says() {
    let found = validate(&vector_add(), "main").expect("valid");
    let names: Vec<&str> = found
        .bindings
        .values()
        .map(|info| info.name.as_str())
        .collect();
    assert_eq!(names, ["A", "B", "C"]);
    let uses: Vec<_> = found
        .bindings
        .values()
        .map(|info| (info.reads, info.writes))
        .collect();
    assert_eq!(uses, [(true, false), (true, false), (false, true)]);
    assert_eq!(found.push_constants, [Some(ScalarKind::U32)]);
    assert_eq!(found.workgroup_size(&[]), Ok([64, 1, 1]));

    let found = validate(&module!("matmul/tile_64x64"), "main").expect("valid");
    assert_eq!(found.push_constants.len(), 8);
    assert_eq!(found.push_constants[7], Some(ScalarKind::F32));
    assert_eq!(found.constants[&5].kind, ScalarKind::U32);
    assert_eq!(
        (found.constants[&0].name.as_str(), found.constants[&0].kind),
        ("TRANS_A", ScalarKind::Bool)
    );
    assert!(found.bindings[&3].writes && found.bindings[&3].reads && !found.bindings[&0].writes);
    // Two halves of 16 rows of 16 vectors and one of padding, for each operand.
    assert_eq!(found.shared_bytes(&[]), Ok(2 * 2 * 16 * 17 * 16));
}

#[test]
fn headers_and_words_are_checked() {
    let whole = vector_add();
    for end in 0..whole.len() {
        assert!(
            validate(&whole[..end], "main").is_err(),
            "cut to {end} words"
        );
    }
    let with = |place: usize, word: u32| {
        let mut words = whole.clone();
        words[place] = word;
        reason(&words)
    };
    assert!(with(0, 0x0302_2307).contains("big-endian"));
    assert!(with(0, 7).contains("0x07230203"));
    assert!(with(1, 0x0001_0600).contains("SPIR-V 1.0 to 1.5"));
    assert!(with(3, 0).contains("bound"));
    assert!(with(3, 20).contains("outside of the bound"));
    assert!(with(4, 1).contains("schema"));
    assert!(with(5, 0x0000_0011).contains("0 words"));
    assert!(with(5, 0xffff_0011).contains("are left"));
}

#[test]
fn flipped_bits_never_panic_and_rarely_pass() {
    for (whole, step) in [(vector_add(), 7), (module!("softmax/forward"), 1501)] {
        let (mut passed, mut tried) = (0, 0);
        for bit in (5 * 32..whole.len() * 32).step_by(step) {
            let mut words = whole.clone();
            words[bit / 32] ^= 1 << (bit % 32);
            tried += 1;
            passed += usize::from(validate(&words, "main").is_ok());
        }
        // Names, values of constants and the like may change.
        assert!(passed * 2 < tried, "{passed} of {tried} passed");
    }
}

#[test]
fn swapped_words_never_panic() {
    let whole = module!("reduce/rows");
    for (step, distance) in [(13, 1), (31, 2), (47, 40), (53, 333)] {
        for place in (5..whole.len() - distance).step_by(step) {
            let mut words = whole.clone();
            words.swap(place, place + distance);
            let _ = validate(&words, "main");
            words[place] = place as u32 % words[3];
            let _ = validate(&words, "main");
        }
    }
}

#[test]
fn faults_are_named() {
    let whole = vector_add();
    let with = |opcode: u32, operand: usize, word: u32| {
        let mut words = whole.clone();
        let place = places(&words, opcode)[0];
        words[place + operand] = word;
        reason(&words)
    };
    // OpCapability, OpEntryPoint, OpMemoryModel, OpTypeFloat, OpFAdd, OpStore, OpDecorate.
    assert!(with(17, 1, 2).contains("capability 2 is not supported"));
    assert!(with(15, 1, 4).contains("its stage is fragment, expected compute"));
    assert!(with(15, 2, 1).contains("OpEntryPoint"));
    assert!(with(14, 2, 3).contains("expected Logical GLSL450"));
    assert!(with(22, 2, 16).contains("floats of 16 bits"));
    assert!(with(129, 3, 9).contains("OpFAdd"));
    let stored = places(&whole, 62)[0];
    assert!(with(62, 1, whole[stored + 2]).contains("OpStore"));
    let unknown = with(71, 2, 77);
    assert!(
        unknown.contains("OpDecorate") && unknown.contains("77"),
        "{unknown}"
    );
    assert!(
        validate(&whole, "other")
            .expect_err("no entry")
            .contains("it has `main`")
    );
    let mut unknown = whole.clone();
    let first = places(&whole, 129)[0];
    unknown[first] = (5 << 16) | 5345;
    assert!(reason(&unknown).contains("contracts do not take this instruction"));
}

#[test]
fn bindings_outside_of_set_0_are_named() {
    let mut words = vector_add();
    let set = places(&words, 71)
        .into_iter()
        .find(|&at| words[at + 2] == 34)
        .expect("a set");
    words[set + 3] = 1;
    let found = reason(&words);
    assert!(
        found.contains("descriptor set 1, expected 0") && found.contains("binding"),
        "{found}"
    );
}

#[test]
fn stores_to_readonly_bindings_are_named() {
    // `C` becomes readonly: its decoration NonReadable (25) becomes NonWritable (24).
    let mut words = vector_add();
    for opcode in [71, 72] {
        let at = if opcode == 71 { 2 } else { 3 };
        for place in places(&words, opcode) {
            if words[place + at] == 25 {
                words[place + at] = 24;
            }
        }
    }
    assert!(reason(&words).contains("`C` is readonly and is stored to"));
}

#[test]
fn a_loop_into_itself_and_unstructured_branches_are_refused() {
    let whole = module!("reduce/rows");
    let mut refused = 0;
    for branch in places(&whole, 249) {
        for label in places(&whole, 248).into_iter().take(12) {
            let mut words = whole.clone();
            words[branch + 1] = whole[label + 1];
            refused += usize::from(validate(&words, "main").is_err());
        }
    }
    assert!(refused > 100, "{refused}");
}

/// A module of one function `main` that works on no data, SPIR-V 1.3: blocks written out by hand.
/// Ids: 1 main, 2 void, 3 void(), 4 bool, 5 true; labels from 10.
fn blocks(bodies: &[&[u32]]) -> Vec<u32> {
    let instruction = |opcode: u32, words: &[u32]| {
        let first = ((words.len() as u32 + 1) << 16) | opcode;
        [&[first], words].concat()
    };
    let main = u32::from_le_bytes(*b"main");
    let mut words = vec![0x0723_0203, 0x0001_0300, 0, 5000, 0];
    words.extend(instruction(17, &[1]));
    words.extend(instruction(14, &[0, 1]));
    words.extend(instruction(15, &[5, 1, main, 0]));
    words.extend(instruction(16, &[1, 17, 1, 1, 1]));
    words.extend(instruction(19, &[2]));
    words.extend(instruction(33, &[3, 2]));
    words.extend(instruction(20, &[4]));
    words.extend(instruction(41, &[4, 5]));
    words.extend(instruction(54, &[2, 1, 0, 3]));
    for (place, body) in bodies.iter().enumerate() {
        words.extend(instruction(248, &[10 + place as u32]));
        words.extend_from_slice(body);
    }
    words.extend(instruction(56, &[]));
    words
}

const RETURN: &[u32] = &[(1 << 16) | 253];
const SELECTION_MERGE: u32 = (3 << 16) | 247;
const LOOP_MERGE: u32 = (4 << 16) | 246;
const BRANCH: u32 = (2 << 16) | 249;
const FORK: u32 = (4 << 16) | 250;

#[test]
fn control_flow_is_structured() {
    // if (true) { 11 } then 12.
    let whole: &[&[u32]] = &[
        &[SELECTION_MERGE, 12, 0, FORK, 5, 11, 12],
        &[BRANCH, 12],
        RETURN,
    ];
    assert_eq!(validate(&blocks(whole), "main").map(|_| ()), Ok(()));
    // A loop: header 11, body 12, continue 13, merge 14.
    let round: &[&[u32]] = &[
        &[BRANCH, 11],
        &[LOOP_MERGE, 14, 13, 0, FORK, 5, 12, 14],
        &[BRANCH, 13],
        &[BRANCH, 11],
        RETURN,
    ];
    assert_eq!(validate(&blocks(round), "main").map(|_| ()), Ok(()));
    let broken: [(&[&[u32]], &str); 7] = [
        (
            &[&[FORK, 5, 11, 12], RETURN, RETURN],
            "two ways without a merge block",
        ),
        (&[&[BRANCH, 11], &[BRANCH, 11]], "no loop header"),
        (&[&[BRANCH, 10]], "a function's first block"),
        (&[&[BRANCH, 5]], "no block of this function"),
        (
            &[&[SELECTION_MERGE, 10, 0, FORK, 5, 11, 12], RETURN, RETURN],
            "part of its construct",
        ),
        (
            &[&[BRANCH, 12], RETURN, &[BRANCH, 11]],
            "precedes the block that dominates it",
        ),
        (
            // 13 is the merge block of both.
            &[
                &[SELECTION_MERGE, 13, 0, FORK, 5, 11, 13],
                &[SELECTION_MERGE, 13, 0, FORK, 5, 12, 13],
                &[BRANCH, 13],
                RETURN,
            ],
            "two headers merge here",
        ),
    ];
    for (bodies, expected) in broken {
        let found = reason(&blocks(bodies));
        assert!(found.contains(expected), "`{found}` lacks `{expected}`");
    }
}

#[test]
fn a_label_or_a_function_within_a_block_is_refused() {
    // Block 11 begins in block 10, which has no end.
    let unended = blocks(&[&[], RETURN]);
    let found = reason(&unended);
    assert!(found.contains("the block before it has no end"), "{found}");
    // OpFunction: %2 %20 None %3.
    let function: &[u32] = &[(5 << 16) | 54, 2, 20, 0, 3, (1 << 16) | 253];
    let found = reason(&blocks(&[function]));
    assert!(found.contains("it is within another function"), "{found}");
}

#[test]
fn sources_precede_names() {
    let whole = vector_add();
    let (source, name) = (places(&whole, 3)[0], places(&whole, 5)[0]);
    let end = |at: usize| at + (whole[at] >> 16) as usize;
    let mut words = whole[..source].to_vec();
    words.extend_from_slice(&whole[end(source)..end(name)]);
    words.extend_from_slice(&whole[source..end(source)]);
    words.extend_from_slice(&whole[end(name)..]);
    assert!(reason(&words).contains("comes later"));
}

#[test]
fn a_parameter_in_function_memory_cannot_be_readonly() {
    // A function void(uint *) with its parameter decorated NonWritable (24), SPIR-V 1.4.
    let instruction = |opcode: u32, words: &[u32]| {
        let first = ((words.len() as u32 + 1) << 16) | opcode;
        [&[first], words].concat()
    };
    let module = |decoration: u32| {
        let mut words = blocks(&[RETURN]);
        words[1] = 0x0001_0400;
        let declared = places(&words, 19)[0];
        words.splice(declared..declared, instruction(71, &[23, decoration]));
        let function = places(&words, 54)[0];
        let types = [
            instruction(21, &[20, 32, 0]),
            instruction(32, &[21, 7, 20]),
            instruction(33, &[22, 2, 21]),
        ];
        words.splice(function..function, types.concat());
        for (opcode, operands) in [
            (54, &[2, 24, 0, 22][..]),
            (55, &[21, 23]),
            (248, &[25]),
            (253, &[]),
            (56, &[]),
        ] {
            words.extend(instruction(opcode, operands));
        }
        words
    };
    // Restrict (19) may be there.
    assert_eq!(validate(&module(19), "main").map(|_| ()), Ok(()));
    assert!(reason(&module(24)).contains("decoration 24 does not belong on %23"));
}

#[test]
fn deep_nesting_is_refused_before_a_driver_recurses() {
    let nested = |depth: u32| {
        // Heads 10, 11, .., the innermost block, then the merge blocks from the inside out.
        let merge = |head: u32| 10 + 2 * depth - head;
        let heads = (0..depth).map(|head| {
            vec![
                SELECTION_MERGE,
                merge(head),
                0,
                FORK,
                5,
                11 + head,
                merge(head),
            ]
        });
        let inner = std::iter::once(vec![BRANCH, merge(depth - 1)]);
        let merges = (0..depth).rev().map(|head| match head {
            0 => RETURN.to_vec(),
            head => vec![BRANCH, merge(head - 1)],
        });
        let bodies: Vec<Vec<u32>> = heads.chain(inner).chain(merges).collect();
        let bodies: Vec<&[u32]> = bodies.iter().map(Vec::as_slice).collect();
        validate(&blocks(&bodies), "main").map(|_| ())
    };
    assert_eq!(nested(3), Ok(()));
    assert_eq!(nested(200), Ok(()));
    assert!(
        nested(1000)
            .expect_err("deep")
            .contains("nest more than 256 deep")
    );
}
