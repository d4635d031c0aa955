//! The CPU's side of the tree: chunks hashed with the processor's SHA instructions.

use hlx_core::digest::CANONICAL_NAN;
use sha2::block_api::compress256;
use sha2::{Digest, Sha256};

use super::{DIGEST_WORDS, DigestKind, TREE, Tree, TreeDigest};
use crate::parallel;

/// Words that are brought into bytes together: they stay in the nearest cache.
const PIECE_WORDS: usize = 1024;

/// What a hash is of; the block that it begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Domain {
    Leaf,
    Node,
    RootF32,
    RootU32,
    List,
}

impl Domain {
    fn block(self) -> [u8; 64] {
        let text: &[u8] = match self {
            Self::Leaf => b"HLX tree digest 1: leaf",
            Self::Node => b"HLX tree digest 1: node",
            Self::RootF32 => b"HLX tree digest 1: root of f32",
            Self::RootU32 => b"HLX tree digest 1: root of u32",
            Self::List => b"HLX tree digest 1: list",
        };
        let mut block = [0; 64];
        block[..text.len()].copy_from_slice(text);
        block
    }
}

/// Returns a SHA-256 that has read the domain's block.
pub(super) fn prefixed(domain: Domain) -> Sha256 {
    Sha256::new_with_prefix(domain.block())
}

/// Returns SHA-256's eight words after the domain's block, from which the shader goes on.
pub(super) fn state_after(domain: Domain) -> [u32; 8] {
    // FIPS 180-4, section 5.3.3.
    let mut state = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    compress256(&mut state, &[domain.block()]);
    state
}

/// Returns the SHA-256 of the domain's block and the words' bytes; with `canonical`, every NaN is
/// read as one.
pub(super) fn hash_words(domain: Domain, words: &[u32], canonical: bool) -> [u8; 32] {
    let mut hash = prefixed(domain);
    let mut piece = [0; PIECE_WORDS];
    for words in words.chunks(PIECE_WORDS) {
        let piece = &mut piece[..words.len()];
        little_endian(words, canonical, piece);
        hash.update(bytemuck::cast_slice(piece));
    }
    hash.finalize().into()
}

multiversion! {
    fn little_endian(words: &[u32], canonical: bool, piece: &mut [u32]) {
        for (out, &word) in piece.iter_mut().zip(words) {
            let is_nan = canonical && word & 0x7fff_ffff > 0x7f80_0000;
            *out = if is_nan { CANONICAL_NAN } else { word }.to_le();
        }
    }
}

/// A digest as it lies in a buffer of words.
pub(super) fn words_of(digest: [u8; 32]) -> [u32; DIGEST_WORDS] {
    let (words, _) = digest.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

/// A digest from a buffer of words.
pub(super) fn bytes_of(words: &[u32]) -> [u8; 32] {
    std::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4])
}

/// Returns the root over a length in bytes and the tree's top.
pub(super) fn root(domain: Domain, bytes: usize, top: [u8; 32]) -> TreeDigest {
    let mut hash = prefixed(domain);
    hash.update((bytes as u64).to_le_bytes());
    hash.update(top);
    TreeDigest(hash.finalize().into())
}

/// Returns the top over the digests of all leaves.
fn top(mut level: Vec<[u8; 32]>, fan_out: usize) -> [u8; 32] {
    while level.len() > 1 {
        let nodes = level.chunks(fan_out).map(|children| {
            let hash = prefixed(Domain::Node).chain_update(children.as_flattened());
            hash.finalize().into()
        });
        level = nodes.collect();
    }
    level[0]
}

/// The root over words with a tree of any shape; no words are one empty leaf.
pub(super) fn root_of_words(words: &[u32], kind: DigestKind, tree: Tree) -> TreeDigest {
    let (n, a_leaf) = (words.len(), tree.leaf_words);
    let leaves = parallel::map(n.div_ceil(a_leaf).max(1), |i| {
        let leaf = &words[i * a_leaf..n.min((i + 1) * a_leaf)];
        hash_words(Domain::Leaf, leaf, kind == DigestKind::F32)
    });
    root(kind.root(), size_of_val(words), top(leaves, tree.fan_out))
}

/// Computes the root over floats in host memory, on rayon's threads; it is that of
/// [`tree_digest`](super::tree_digest) over a buffer with these values.
pub fn tree_digest_f32(values: &[f32]) -> TreeDigest {
    root_of_words(bytemuck::cast_slice(values), DigestKind::F32, TREE)
}
