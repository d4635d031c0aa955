//! Embedding: bits of all devices, chains per token within shards, and their sum.

use super::*;
use crate::testing::{assert_close, ids, normal, run_everywhere, values};

#[test]
fn forward_copies_rows() {
    for (n, vocabulary, width) in [(1, 1, 1), (31, 7, 33), (130, 50, 256), (5, 1000, 37)] {
        let tokens = ids(1, n, vocabulary as u32);
        let table = values(2, vocabulary * width);
        let got = run_everywhere("embedding_forward", |device, mem| {
            let (tokens, weight) = (mem.input_u32(device, &tokens)?, mem.input(device, &table)?);
            let y = mem.output(device, n * width)?;
            embedding_forward(device, &tokens, &weight, &y, n, vocabulary, width)?;
            Ok(vec![y])
        });
        let want: Vec<f64> = tokens
            .iter()
            .flat_map(|id| &table[*id as usize * width..][..width])
            .map(|x| f64::from(*x))
            .collect();
        assert_close("embedding_forward", &got[0], &want, 0.0, 1.2e-38);
    }
}

#[test]
fn an_id_outside_the_vocabulary_gives_nan_and_no_gradient() {
    let got = run_everywhere("embedding", |device, mem| {
        let tokens = mem.input_u32(device, &[1, 2, u32::MAX])?;
        let weight = mem.input(device, &[1.0, 2.0, 3.0, 4.0])?;
        let (y, dweight) = (mem.output(device, 6)?, mem.output(device, 4)?);
        embedding_forward(device, &tokens, &weight, &y, 3, 2, 2)?;
        let dy = mem.input(device, &[1.0; 6])?;
        embedding_backward(device, &tokens, &dy, &dweight, sizes(1, 3, 2, 2), false)?;
        Ok(vec![y, dweight])
    });
    assert_eq!(got[0][..2], [3.0, 4.0]);
    assert!(got[0][2..].iter().all(|y| y.is_nan()));
    assert_eq!(got[1], [0.0, 0.0, 1.0, 1.0]);
}

fn sizes(shards: usize, rows_per_shard: usize, vocabulary: usize, width: usize) -> EmbeddingSizes {
    EmbeddingSizes {
        shards,
        rows_per_shard,
        vocabulary,
        width,
    }
}

/// The chain of one row and column, spelled out.
fn reference(tokens: &[u32], dy: &[f32], sizes: EmbeddingSizes) -> Vec<f64> {
    let EmbeddingSizes {
        shards,
        rows_per_shard,
        vocabulary,
        width,
    } = sizes;
    let mut dweight = vec![0.0; shards * vocabulary * width];
    for (row, id) in tokens.iter().enumerate() {
        let target = (row / rows_per_shard * vocabulary + *id as usize) * width;
        for col in 0..width {
            dweight[target + col] += f64::from(dy[row * width + col]);
        }
    }
    dweight
}

#[test]
fn backward_sums_by_token_within_a_shard() {
    // (3, 1500, ..) has shards longer than the shader's lists of 1,024 matches.
    for (shards, rows_per_shard, vocabulary, width) in [
        (1, 1, 1, 1),
        (4, 33, 5, 31),
        (2, 64, 300, 257),
        (3, 1500, 3, 5),
    ] {
        let rows = shards * rows_per_shard;
        let tokens = ids(3, rows, vocabulary as u32);
        let upstream = normal(4, rows * width);
        let sizes = sizes(shards, rows_per_shard, vocabulary, width);
        let got = run_everywhere("embedding_backward", |device, mem| {
            let (ids, dy) = (
                mem.input_u32(device, &tokens)?,
                mem.input(device, &upstream)?,
            );
            let dweight = mem.output(device, shards * vocabulary * width)?;
            embedding_backward(device, &ids, &dy, &dweight, sizes, false)?;
            Ok(vec![dweight])
        });
        let want = reference(&tokens, &upstream, sizes);
        assert_close("embedding_backward", &got[0], &want, 1e-5, 1e-4);
    }
}

/// Shards that lack a token, tokens outside the vocabulary, long lists, zeros of both signs.
#[test]
fn the_sum_over_shards_has_the_bits_of_its_two_steps() {
    for (shards, rows_per_shard, vocabulary, width) in [
        (2, 1, 1, 1),
        (4, 33, 500, 31),
        (8, 9, 40, 260),
        (8, 1100, 3, 8),
    ] {
        let rows = shards * rows_per_shard;
        let mut tokens = ids(3, rows, vocabulary as u32);
        tokens[rows / 2] = vocabulary as u32;
        let upstream = values(4, rows * width);
        let got = run_everywhere("embedding_backward_sum", |device, mem| {
            let (ids, dy) = (
                mem.input_u32(device, &tokens)?,
                mem.input(device, &upstream)?,
            );
            let table = vocabulary * width;
            let partials = mem.output(device, shards * table)?;
            let (two_steps, one) = (mem.output(device, table)?, mem.output(device, table)?);
            let sizes = sizes(shards, rows_per_shard, vocabulary, width);
            embedding_backward(device, &ids, &dy, &partials, sizes, false)?;
            crate::reduce::shard_sum(device, &partials, &two_steps, shards, table, false)?;
            embedding_backward_sum(device, &ids, &dy, &one, sizes)?;
            Ok(vec![two_steps, one])
        });
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got[0]), bits(&got[1]));
    }
}

/// Two half batches, the second accumulating, give the bits of the whole.
#[test]
fn accumulation_continues_the_chain() {
    let (rows, vocabulary, width) = (90, 7, 40);
    let tokens = ids(5, rows, vocabulary as u32);
    let upstream = values(6, rows * width);
    let got = run_everywhere("embedding_backward", |device, mem| {
        let whole = mem.output(device, vocabulary * width)?;
        let pieces = mem.output(device, vocabulary * width)?;
        let mut piece = |from: usize, to: usize, target: &Buffer, accumulate| {
            let ids = mem.input_u32(device, &tokens[from..to])?;
            let dy = mem.input(device, &upstream[from * width..to * width])?;
            let sizes = sizes(1, to - from, vocabulary, width);
            embedding_backward(device, &ids, &dy, target, sizes, accumulate)
        };
        piece(0, rows, &whole, false)?;
        piece(0, 37, &pieces, false)?;
        piece(37, rows, &pieces, true)?;
        Ok(vec![whole, pieces])
    });
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&got[0]), bits(&got[1]));
}
