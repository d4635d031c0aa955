//! Batches: windows, padded and packed documents, as functions of seed and number.

use std::collections::BTreeSet;

use hlx_kernels::cross_entropy::IGNORE_INDEX;
use hlx_text::{
    Document, PackedDocuments, PaddedDocuments, Result, TokenBatch, TokenSamples, TokenShards,
    Windows,
};

/// Documents of 1 to 12 distinct tokens; of every second one the first half is not trained on.
fn documents() -> Vec<Document> {
    let mut next = 0;
    let mut document = |number: u32| {
        let n = number * 5 % 12 + 1;
        next += n;
        Document {
            tokens: (next - n..next).collect(),
            trained: (number % 2 == 1).then(|| (0..n).map(|at| at >= n / 2).collect()),
        }
    };
    (0..30).map(&mut document).collect()
}

fn shards() -> Result<TokenShards> {
    TokenShards::from_documents(1000, &documents())
}

/// The rows of a batch: ids, targets, starts and positions up to the row's length.
fn rows(batch: &TokenBatch) -> Vec<[Vec<u32>; 4]> {
    let cut = |row: usize, all: &[u32]| {
        let start = row * batch.time;
        all[start..start + batch.lengths[row] as usize].to_vec()
    };
    let arrays = [
        &batch.ids,
        &batch.targets,
        &batch.document_starts,
        &batch.positions,
    ];
    (0..batch.rows)
        .map(|row| arrays.map(|all| cut(row, all)))
        .collect()
}

/// What holds of every batch.
fn check(batch: &TokenBatch) {
    let n = batch.rows * batch.time;
    for all in [
        &batch.ids,
        &batch.targets,
        &batch.document_starts,
        &batch.positions,
    ] {
        assert_eq!(all.len(), n);
    }
    let targets = batch.targets.iter().filter(|&&id| id != IGNORE_INDEX);
    assert_eq!(batch.n_targets, targets.count());
    assert_eq!(batch.n_inputs, batch.lengths.iter().sum::<u32>() as usize);
    for row in 0..batch.rows {
        for column in 0..batch.time {
            let at = row * batch.time + column;
            let padding = column >= batch.lengths[row] as usize;
            if padding {
                assert_eq!((batch.ids[at], batch.targets[at]), (0, IGNORE_INDEX));
                assert_eq!(batch.document_starts[at], column as u32);
            }
            let position = column as u32 - batch.document_starts[at];
            assert_eq!(batch.positions[at], position);
        }
    }
}

#[test]
fn windows_are_contiguous_and_a_function_of_seed_and_number() -> Result<()> {
    let document = Document::new((0..500).collect());
    let shards = TokenShards::from_documents(1000, &[document])?;
    let windows = Windows::new(shards.clone(), 100..400, 16, 3)?;
    assert_eq!(windows.per_epoch(), None);
    let all = windows.batch(1000, 64)?;
    check(&all);
    let mut firsts = BTreeSet::new();
    for [ids, targets, starts, positions] in rows(&all) {
        let first = ids[0];
        assert!((100..=383).contains(&first), "{first}");
        assert!(ids.into_iter().eq(first..first + 16));
        assert!(targets.into_iter().eq(first + 1..first + 17));
        assert!(starts.iter().all(|&start| start == 0) && positions.into_iter().eq(0..16));
        firsts.insert(first);
    }
    assert!(firsts.len() > 45, "{firsts:?}");
    // In parts, and by another order of calls, the same rows.
    let parts = [windows.batch(1032, 32)?, windows.batch(1000, 32)?];
    assert_eq!([rows(&parts[1]), rows(&parts[0])].concat(), rows(&all));
    let other = Windows::new(shards.clone(), 100..400, 16, 4)?;
    assert_ne!(other.batch(1000, 64)?, all);
    // Every offset is drawn, the first and the last too.
    let small = Windows::new(shards, 0..20, 16, 3)?.batch(0, 100)?;
    let firsts: BTreeSet<u32> = rows(&small).iter().map(|row| row[0][0]).collect();
    assert_eq!(firsts, BTreeSet::from([0, 1, 2, 3]));
    Ok(())
}

#[test]
fn windows_in_order_predict_each_token_but_the_first_once() -> Result<()> {
    let shards = shards()?;
    let n = shards.len() as u32;
    for time in [1, 7, 64, n as usize - 1, n as usize, 1000] {
        let windows = Windows::in_order(shards.clone(), 0..shards.len(), time)?;
        let count = windows.per_epoch().expect("an epoch");
        let batch = windows.batch(0, count as usize)?;
        check(&batch);
        let read = rows(&batch).into_iter().flat_map(|[ids, ..]| ids);
        assert!(read.eq(0..n - 1), "{time}");
        assert_eq!(windows.batch(count, 1)?, windows.batch(0, 1)?);
    }
    Ok(())
}

#[test]
fn separate_documents_of_a_window_do_not_see_each_other() -> Result<()> {
    let shards = shards()?;
    let windows = Windows::in_order(shards.clone(), 0..shards.len(), 40)?;
    let joined = windows.batch(0, 4)?;
    let separate = windows.with_separate_documents().batch(0, 4)?;
    check(&separate);
    assert_eq!(
        (&separate.ids, &separate.targets),
        (&joined.ids, &joined.targets)
    );
    for [ids, _, starts, _] in rows(&separate) {
        for (column, &id) in ids.iter().enumerate() {
            let document = shards.document(shards.document_at(u64::from(id))?)?;
            let start = ids[starts[column] as usize];
            assert_eq!(u64::from(start), document.start.max(u64::from(ids[0])));
        }
    }
    Ok(())
}

#[test]
fn targets_that_are_not_trained_on_are_ignored() -> Result<()> {
    let shards = shards()?;
    let flags = shards.trained(0..shards.len())?;
    assert!(flags.contains(&false));
    let n = shards.len();
    let samples: [Box<dyn TokenSamples>; 3] = [
        Box::new(Windows::in_order(shards.clone(), 0..n, 16)?),
        Box::new(PaddedDocuments::in_order(shards.clone(), 0..30, 16)?),
        Box::new(PackedDocuments::in_order(shards.clone(), 0..30, 16)?),
    ];
    for samples in samples {
        let count = samples.per_epoch().expect("an epoch") as usize;
        let batch = samples.batch(0, count)?;
        check(&batch);
        for [ids, targets, ..] in rows(&batch) {
            for (id, target) in ids.into_iter().zip(targets) {
                let expected = if flags[id as usize + 1] {
                    id + 1
                } else {
                    IGNORE_INDEX
                };
                assert_eq!(target, expected);
            }
        }
    }
    Ok(())
}

#[test]
fn an_epoch_of_padded_documents_has_each_once() -> Result<()> {
    let shards = shards()?;
    let samples = PaddedDocuments::new(shards.clone(), 3..30, 8, 9)?;
    assert_eq!(samples.per_epoch(), Some(27));
    let epoch = |number: u64| -> Result<Vec<u64>> {
        let mut order = Vec::new();
        for row in 0..27 {
            let batch = samples.batch(number * 27 + row, 1)?;
            check(&batch);
            let [ids, ..] = rows(&batch).remove(0);
            // A document of one token has nothing to predict, and its row nothing to read.
            if let Some(&first) = ids.first() {
                let document = shards.document_at(u64::from(first))?;
                let range = shards.document(document)?;
                let n = (range.end - range.start - 1).min(8) as u32;
                assert!(ids.into_iter().eq(first..first + n) && u64::from(first) == range.start);
                order.push(document);
            }
        }
        Ok(order)
    };
    let (first, second) = (epoch(0)?, epoch(1)?);
    assert_ne!(first, second);
    let sorted: BTreeSet<u64> = first.iter().copied().collect();
    assert_eq!(sorted, second.into_iter().collect());
    assert_eq!(sorted.len(), first.len());
    let rounded = samples.clone().with_time_multiple(4).batch(0, 5)?;
    check(&rounded);
    assert!(rounded.time % 4 == 0 && rounded.time <= 8);
    Ok(())
}

#[test]
fn packed_rows_hold_every_prediction_of_the_documents_once() -> Result<()> {
    let shards = shards()?;
    let n = shards.len() as u32;
    let all = PaddedDocuments::in_order(shards.clone(), 0..30, 100)?.batch(0, 30)?;
    for time in [1, 5, 12, 30, 500] {
        let packed = PackedDocuments::in_order(shards.clone(), 0..30, time)?;
        let count = packed.per_epoch().expect("an epoch") as usize;
        let batch = packed.batch(0, count)?;
        check(&batch);
        assert_eq!(batch.time, time);
        let pairs = |batch: &TokenBatch| -> Vec<(u32, u32)> {
            let rows = rows(batch).into_iter();
            rows.flat_map(|[ids, targets, ..]| ids.into_iter().zip(targets))
                .collect()
        };
        assert_eq!(pairs(&batch), pairs(&all), "{time}");
        for [ids, _, starts, positions] in rows(&batch) {
            for (column, &id) in ids.iter().enumerate() {
                let range = shards.document(shards.document_at(u64::from(id))?)?;
                let place = u64::from(id) - range.start;
                assert_eq!(u64::from(positions[column]), place % time as u64);
                assert_eq!(ids[starts[column] as usize], id - positions[column]);
            }
        }
        // A row is closed only where the next piece does not fit.
        if time == 500 {
            assert_eq!((count, batch.n_inputs as u32), (1, n - 30));
        }
        let shuffled = PackedDocuments::new(shards.clone(), 0..30, time, 1)?;
        let mut ids: Vec<u32> = rows(&shuffled.batch(count as u64, count)?)
            .into_iter()
            .flat_map(|[ids, ..]| ids)
            .collect();
        ids.sort_unstable();
        let expected: Vec<u32> = pairs(&all).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, expected);
    }
    Ok(())
}

#[test]
fn what_cannot_be_sampled_is_refused() -> Result<()> {
    let shards = shards()?;
    let n = shards.len();
    let line = |result: Result<TokenBatch>| result.expect_err("must fail").to_string();
    let windows = |tokens, time| {
        line(Windows::new(shards.clone(), tokens, time, 1).and_then(|made| made.batch(0, 1)))
    };
    let short = "windows: a window takes 17 tokens (one to start from), and there are 16";
    assert_eq!(windows(0..16, 16), short);
    assert!(windows(0..n + 1, 16).contains("are out of range: there are"));
    assert_eq!(windows(0..n, 0), "windows: time is 0, expected at least 1");
    let one = Windows::in_order(shards.clone(), 3..4, 8);
    assert!(
        one.expect_err("one token")
            .to_string()
            .contains("there are 1")
    );
    let none = PaddedDocuments::new(shards.clone(), 4..4, 8, 1);
    let expected = "padded_documents: there are no documents";
    assert_eq!(none.expect_err("none").to_string(), expected);
    let behind = PackedDocuments::new(shards.clone(), 4..31, 8, 1);
    let expected = "packed_documents: the documents 4 to 31 are out of range: there are 30";
    assert_eq!(behind.expect_err("behind").to_string(), expected);
    let rows = Windows::new(shards, 0..n, 8, 1)?.batch(0, 0);
    assert_eq!(line(rows), "windows: a batch of no row");
    Ok(())
}
