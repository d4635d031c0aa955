//! The values of blocks are those of the `gguf` package's NumPy code, bit for bit.

mod common;

use hlx_core::bytes::little_endian;
use hlx_core::digest::sha256_hex;
use hlx_gguf::{Block, BlockKind, widen};

use common::{bytes_of, fixture};

const N_BLOCKS: usize = 4096;

#[test]
fn values_are_those_of_the_gguf_package() {
    let table = std::fs::read_to_string(fixture("blocks.txt")).expect("the digests");
    let mut lines = table.lines();
    for kind in BlockKind::ALL {
        let values = widen(kind, &bytes_of(kind, N_BLOCKS)).expect("whole blocks");
        assert_eq!(values.len(), N_BLOCKS * kind.block_values());
        let found = format!("{} {}", kind.name(), sha256_hex(&little_endian(&values)));
        assert_eq!(Some(&found[..]), lines.next());
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn the_integers_of_a_block_give_its_values() {
    for kind in BlockKind::ALL.into_iter().filter(|kind| !kind.is_float()) {
        let bytes = bytes_of(kind, 64);
        let values = widen(kind, &bytes).expect("whole blocks");
        let blocks = bytes.chunks_exact(kind.block_bytes());
        for (bytes, values) in blocks.zip(values.chunks_exact(kind.block_values())) {
            let block = Block::unpack(kind, bytes).expect("a block");
            for (at, &value) in values.iter().enumerate() {
                let group = at / kind.group();
                let scaled = f64::from(block.scales[group]) * f64::from(block.q[at]);
                let min = f64::from(block.dmin) * f64::from(block.mins[group]);
                let exact = f64::from(block.d) * scaled - min;
                let largest = (f64::from(block.d) * scaled).abs().max(min.abs());
                let error = (f64::from(value) - exact).abs();
                let bound = largest / f64::from(1 << 23) + f64::from(f32::MIN_POSITIVE);
                assert!(
                    error <= bound || exact.abs() > f64::from(f32::MAX),
                    "{kind:?} {at}: {value} for {exact}"
                );
            }
        }
    }
}
