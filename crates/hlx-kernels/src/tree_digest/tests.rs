//! The trees of all devices against the specification, carried out word by word.

use std::cell::RefCell;

use sha2::{Digest, Sha256};

use super::*;
use crate::testing::{devices, ids, own_devices, run_everywhere};
use crate::tuning::KernelTuning;

/// A tree whose levels are many and whose leaves are short of whole blocks.
const SMALL: Tree = Tree {
    leaf_words: 20,
    fan_out: 3,
};

fn sha(text: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(64, 0);
    bytes.extend(parts.concat());
    Sha256::digest(bytes).to_vec()
}

/// The specification, plainly: bytes in, hexadecimal root out.
fn reference(bytes: &[u8], name: &str, tree: Tree) -> String {
    let cut = |bytes: &[u8], size: usize, text: &str| -> Vec<u8> {
        let hashes = bytes.chunks(size).map(|piece| sha(text, &[piece]));
        hashes.collect::<Vec<_>>().concat()
    };
    let mut level = cut(bytes, 4 * tree.leaf_words, "HLX tree digest 1: leaf");
    if bytes.is_empty() {
        level = sha("HLX tree digest 1: leaf", &[]);
    }
    while level.len() > 32 {
        level = cut(&level, 32 * tree.fan_out, "HLX tree digest 1: node");
    }
    let length = (bytes.len() as u64).to_le_bytes();
    let root = sha(
        &format!("HLX tree digest 1: root of {name}"),
        &[&length, &level],
    );
    root.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of_words(words: &[u32], kind: DigestKind) -> Vec<u8> {
    let canonical = |word: u32| match f32::from_bits(word).is_nan() && kind == DigestKind::F32 {
        true => 0x7fc0_0000_u32,
        false => word,
    };
    let bytes = words.iter().map(|&word| canonical(word).to_le_bytes());
    bytes.collect::<Vec<_>>().concat()
}

fn reference_of_words(words: &[u32], kind: DigestKind, tree: Tree) -> String {
    let name = match kind {
        DigestKind::F32 => "f32",
        DigestKind::U32 => "u32",
    };
    reference(&bytes_of_words(words, kind), name, tree)
}

/// Any words, every fourth of them a NaN.
fn words(seed: u64, len: usize) -> Vec<u32> {
    let random = ids(seed, len, u32::MAX).into_iter();
    random
        .map(|word| {
            if word & 3 == 0 {
                word | 0x7f80_0000
            } else {
                word
            }
        })
        .collect()
}

fn span(name: &str, shape: &[usize], offset: usize) -> TensorSpan {
    TensorSpan {
        name: name.to_owned(),
        shape: shape.to_vec(),
        offset,
    }
}

/// The digest of the spans on every device, of a buffer between fences.
fn digest_everywhere(
    data: &[u32],
    spans: &[TensorSpan],
    kind: DigestKind,
    (tree, window): (Tree, usize),
) -> ListDigest {
    let lists = RefCell::new(Vec::new());
    run_everywhere("tree_digest", |device, mem| {
        let buffer = mem.input_u32(device, data)?;
        // A thread or two for each leaf and node.
        for digest_pairs_up_to in [0, usize::MAX] {
            let tuning = KernelTuning {
                digest_pairs_up_to,
                ..KernelTuning::of(device).clone()
            };
            let tuned = tuning.on(device)?;
            let digester = TreeDigester::with_tree(&tuned, kind, spans.to_vec(), tree, window)?;
            lists.borrow_mut().push(digester.digest(&buffer)?);
        }
        Ok(vec![])
    });
    let lists = lists.into_inner();
    assert!(lists.iter().all(|list| list == &lists[0]), "{lists:?}");
    lists[0].clone()
}

#[test]
fn every_device_has_the_roots_of_the_specification() {
    let leaf = TREE.leaf_words;
    for kind in [DigestKind::F32, DigestKind::U32] {
        for n in [0, 1, 13, 14, 16, 1009, leaf - 1, leaf, leaf + 1, 3 * leaf] {
            let data = words(n as u64, n);
            let want = reference_of_words(&data, kind, TREE);
            for device in devices() {
                let buffer = device.buffer_of::<u32>(&data).expect("a buffer");
                let got = tree_digest(device, &buffer, kind).expect("a digest");
                assert_eq!(got.to_string(), want, "{n} words on {}", device.info());
            }
            let host = match kind {
                DigestKind::F32 => tree_digest_f32(bytemuck::cast_slice(&data)),
                DigestKind::U32 => host::root_of_words(&data, kind, TREE),
            };
            assert_eq!(host.to_string(), want, "{n} words on the host");
        }
    }
}

#[test]
fn levels_stand_one_above_the_other() {
    let kind = DigestKind::F32;
    for leaves in [1, 2, 3, 4, 9, 10, 27, 28, 82] {
        for n in [leaves * 20 - 1, leaves * 20, leaves * 20 + 1] {
            let data = words(7, n);
            let want = reference_of_words(&data, kind, SMALL);
            let spans = [span("x", &[n], 0)];
            let whole = digest_everywhere(&data, &spans, kind, (SMALL, 1 << 20));
            assert_eq!(whole.tensors[0].root.to_string(), want, "{n} words");
            let host = host::root_of_words(&data, kind, SMALL);
            assert_eq!(host.to_string(), want, "{n} words on the host");
        }
    }
}

#[test]
fn windows_do_not_show() {
    let (data, kind) = (words(8, 5000), DigestKind::U32);
    let spans = [span("a", &[3, 700], 128), span("b", &[2001], 2400)];
    let whole = digest_everywhere(&data, &spans, kind, (SMALL, 1 << 20));
    let launches = Plan::new(&spans, SMALL, 300).expect("a plan").launches;
    assert!(launches.iter().filter(|launch| launch.is_leaves).count() > 10);
    assert_eq!(
        digest_everywhere(&data, &spans, kind, (SMALL, 300)),
        whole,
        "in windows of 300 words"
    );
    let small = Plan::new(&spans, TREE, 1000).expect_err("refused");
    let text = "tree_digest: a leaf of 2100 words, expected to bind at most 1000";
    assert_eq!(small.to_string(), text);
}

#[test]
fn tensors_have_their_own_roots_and_the_list_one() {
    let (data, kind) = (words(9, 6000), DigestKind::F32);
    let spans = [
        span("last", &[7, 300], 3900),
        span("none", &[4, 0], 64),
        span("scalar", &[], 4),
        span("first", &[2048], 1024),
    ];
    let list = digest_everywhere(&data, &spans, kind, (SMALL, 1 << 20));
    let mut hash = Sha256::new();
    let mut prefix = b"HLX tree digest 1: list".to_vec();
    prefix.resize(64, 0);
    hash.update(prefix);
    for (tensor, span) in list.tensors.iter().zip(&spans) {
        let words = &data[span.offset..][..span.shape.iter().product()];
        let want = reference_of_words(words, kind, SMALL);
        assert_eq!(tensor.root.to_string(), want, "{}", span.name);
        hash.update((span.name.len() as u64).to_le_bytes());
        hash.update(&span.name);
        hash.update((span.shape.len() as u64).to_le_bytes());
        let extents = span.shape.iter().map(|&d| (d as u64).to_le_bytes());
        hash.update(extents.collect::<Vec<_>>().concat());
        hash.update(tensor.root.as_bytes());
    }
    assert_eq!(list.root.as_bytes()[..], hash.finalize()[..]);
}

#[test]
fn a_tensor_that_differs_changes_its_root_alone() {
    let spans = [span("a", &[5], 0), span("b", &[40], 8), span("c", &[6], 48)];
    let (data, kind) = (words(10, 54), DigestKind::U32);
    let digest = |data: &[u32]| digest_everywhere(data, &spans, kind, (SMALL, 1 << 20));
    let here = digest(&data);
    assert_eq!(here, digest(&data));
    for (at, name) in [(4, "a"), (8, "b"), (47, "b"), (53, "c")] {
        let mut other = data.clone();
        other[at] ^= 1 << (at % 32);
        let there = digest(&other);
        assert_ne!(here.root, there.root);
        let mut pairs = here.tensors.iter().zip(&there.tensors);
        assert!(pairs.all(|(a, b)| (a == b) == (a.name != name)), "{name}");
    }
    let shorter = ListDigest::new(here.tensors[..2].to_vec());
    assert_ne!(here.root, shorter.root);
}

#[test]
fn nan_payloads_do_not_count_and_signs_of_zero_lengths_and_kinds_do() {
    let root = |bits: &[u32], kind| host::root_of_words(bits, kind, TREE);
    let f32 = |bits: &[u32]| root(bits, DigestKind::F32);
    for nan in [0x7f80_0001, 0x7fff_ffff, 0xff80_0001, 0xffc0_0000] {
        assert_eq!(f32(&[nan, 1]), f32(&[0x7fc0_0000, 1]), "{nan:#x}");
        let u32 = |bits: &[u32]| root(bits, DigestKind::U32);
        assert_ne!(u32(&[nan, 1]), u32(&[0x7fc0_0000, 1]), "{nan:#x}");
    }
    let different = [
        f32(&[]),
        f32(&[0]),
        f32(&[0x8000_0000]),
        f32(&[0, 0]),
        f32(&[0x7f80_0000]),
        f32(&[0xff80_0000]),
        f32(&[0x7fc0_0000]),
        f32(&[1]),
        root(&[0], DigestKind::U32),
    ];
    for (i, a) in different.iter().enumerate() {
        assert!(!different[i + 1..].contains(a), "{i}");
    }
}

#[test]
fn a_recorded_digest_follows_the_buffer() -> Result<(), KernelError> {
    for device in &own_devices() {
        let data = words(12, 500);
        let buffer = device.buffer_of::<u32>(&data)?;
        let spans = vec![span("x", &[500], 0)];
        let window = device.max_binding_words();
        let digester = TreeDigester::with_tree(device, DigestKind::U32, spans, SMALL, window)?;
        let (graph, ()) = device.record(|| digester.launch(&buffer))?;
        for fill in [0, 1, 0x8000_0000] {
            device.fill(&buffer, fill)?;
            graph.replay()?;
            let want = reference_of_words(&[fill; 500], DigestKind::U32, SMALL);
            assert_eq!(digester.read()?.tensors[0].root.to_string(), want);
        }
    }
    Ok(())
}

#[test]
fn digests_launched_together_are_those_launched_alone() -> Result<(), KernelError> {
    for device in devices() {
        let mut buffers = Vec::new();
        // Of three levels, of one, of none, and of two.
        for (seed, n) in [(13, 500), (14, 7), (15, 0), (16, 60)] {
            let spans = vec![span("x", &[n], 0)];
            let window = device.max_binding_words();
            let digester = TreeDigester::with_tree(device, DigestKind::U32, spans, SMALL, window)?;
            buffers.push((digester, device.buffer_of::<u32>(&words(seed, n))?));
        }
        let together: Vec<_> = buffers
            .iter()
            .map(|(digester, buffer)| (digester, buffer))
            .collect();
        TreeDigester::launch_together(&together)?;
        let pending: Vec<_> = buffers
            .iter()
            .map(|(digester, _)| digester.read_later())
            .collect::<Result<_, _>>()?;
        for ((digester, buffer), pending) in buffers.iter().zip(pending) {
            let found = digester.receive(pending)?;
            assert_eq!(found, digester.digest(buffer)?, "{}", device.info());
        }
    }
    Ok(())
}

#[test]
fn spans_outside_and_digests_that_are_none_are_refused() -> Result<(), KernelError> {
    let device = hlx_core::testing::cpu()?;
    let buffer = device.buffer_of::<u32>(&[0; 10])?;
    let refused = |span: TensorSpan| {
        TreeDigester::new(&device, DigestKind::U32, vec![span])
            .and_then(|digester| digester.digest(&buffer))
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(
        refused(span("w", &[3, 3], 4)),
        "tree_digest: `w` ends at word 13 of a buffer of 10"
    );
    assert_eq!(
        refused(span("w", &[3], 2)),
        "tree_digest: `w` begins at word 2, expected a multiple of 4"
    );
    let huge = refused(span("w", &[usize::MAX, 2], 0));
    assert!(huge.ends_with("is larger than any memory"), "{huge}");

    let root = host::root_of_words(&[1, 2, 3], DigestKind::U32, TREE);
    assert_eq!(root.to_string().parse::<TreeDigest>()?, root);
    for bad in ["", "12", &"g".repeat(64), &"é".repeat(32)] {
        let text = bad.parse::<TreeDigest>().expect_err("refused").to_string();
        assert!(text.ends_with("expected 64 hexadecimal digits"), "{text}");
    }
    Ok(())
}

#[test]
fn known_answers() {
    // Of 0, 1, 2, ... as floats, from Python's hashlib.
    let counted = |n: usize| (0..n).map(|i| i as f32).collect::<Vec<_>>();
    let roots = [0, 1, 16_385].map(|n| tree_digest_f32(&counted(n)).to_string());
    let want = [
        "3408fe463f0ad9134fd7d2a461dce36107d7bfa46850aedc51a32d71194c5030",
        "aa3442dff7f6a4fc50a2a856751936979622ebde3d83e3cec50e950df73ae95a",
        "04a5a25d9338b72afe9b2d72960567483414d8d125e20c0397e5a47a26dea954",
    ];
    assert_eq!(roots, want);
}
