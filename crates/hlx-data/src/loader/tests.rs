//! Batches: order, bits on any number of workers, cursors, bounded memory, errors of workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::{BoxError, HostArray};

/// Sample i is the array [i, i + 0.5] and the label i.
struct Counted(usize);

impl Dataset for Counted {
    type Item = (HostArray<f32>, u32);

    fn len(&self) -> usize {
        self.0
    }

    fn get(&self, index: usize) -> Result<Self::Item, BoxError> {
        let first = index as f32;
        let array = HostArray::new(&[2], vec![first, first + 0.5])?;
        Ok((array, index as u32))
    }
}

type Sample = (HostArray<f32>, u32);
type Rows = (HostArray<f32>, HostArray<u32>);

/// Adds what the key draws, after a time that differs from sample to sample.
fn noisy((mut array, label): Sample, key: SampleKey) -> Result<Sample, BoxError> {
    thread::sleep(Duration::from_micros(u64::from(label % 7) * 50));
    for (index, value) in array.values_mut().iter_mut().enumerate() {
        *value += hlx_core::arith::uniform(key.words(16, index as u32)[0]);
    }
    Ok((array, label))
}

fn options(workers: usize) -> LoaderOptions {
    LoaderOptions {
        batch_size: 8,
        shuffle: true,
        seed: 5,
        workers,
        ..LoaderOptions::default()
    }
}

fn epoch(loader: &LoaderOptions, epoch: u64) -> Result<Vec<Batch<Rows>>> {
    let loader = DataLoader::new(Counted(61), loader.clone())?;
    let loader = loader.with_transform(noisy);
    loader.batches(Cursor::start_of(epoch))?.collect()
}

#[test]
fn the_number_of_workers_changes_no_bit() -> Result<()> {
    let alone = epoch(&options(0), 3)?;
    assert_eq!(alone.len(), 8);
    for workers in [1, 2, 5] {
        for prefetch in [1, 3, 50] {
            let options = LoaderOptions {
                prefetch,
                ..options(workers)
            };
            assert_eq!(
                epoch(&options, 3)?,
                alone,
                "{workers} workers, {prefetch} ahead"
            );
        }
    }
    let other = epoch(&options(2), 4)?;
    assert_ne!(other[0].indices, alone[0].indices);
    Ok(())
}

/// `python/tests/test_data.py` names these orders, too.
#[test]
fn the_orders_of_a_seed_are_those_of_python() -> Result<()> {
    let order = |seed: u64, n: usize, epoch: u64| -> Result<Vec<usize>> {
        let options = LoaderOptions {
            shuffle: true,
            seed,
            ..LoaderOptions::default()
        };
        Ok(DataLoader::new(Counted(n), options)?.order(epoch))
    };
    assert_eq!(order(7, 10, 0)?, [0, 4, 2, 3, 7, 8, 5, 1, 6, 9]);
    assert_eq!(order(7, 10, 1)?, [8, 1, 2, 9, 3, 4, 7, 6, 5, 0]);
    assert_eq!(order(3, 10, 0)?, [1, 8, 6, 5, 4, 3, 7, 0, 9, 2]);
    assert_eq!(order((1 << 40) + 3, 8, 0)?, [5, 1, 6, 2, 7, 4, 3, 0]);
    Ok(())
}

#[test]
fn an_epoch_holds_every_sample_once_and_augments_it_anew() -> Result<()> {
    let (first, second) = (epoch(&options(2), 0)?, epoch(&options(2), 1)?);
    let mut labels: Vec<u32> = first
        .iter()
        .flat_map(|batch| batch.data.1.values().to_vec())
        .collect();
    labels.sort_unstable();
    assert!(labels.into_iter().eq(0..61));
    let noise_of = |batches: &[Batch<Rows>], label: u32| {
        let rows = batches.iter().flat_map(|batch| {
            let values = batch.data.0.values().chunks(2).map(<[f32]>::to_vec);
            batch.data.1.values().iter().copied().zip(values)
        });
        rows.into_iter().find(|row| row.0 == label).map(|row| row.1)
    };
    assert_ne!(noise_of(&first, 17), noise_of(&second, 17));
    Ok(())
}

#[test]
fn a_last_batch_is_kept_dropped_or_filled() -> Result<()> {
    let lasts = [
        (LastBatch::Keep, 8, 5, 0),
        (LastBatch::Drop, 7, 8, 0),
        (LastBatch::Fill, 8, 8, 3),
    ];
    for (last, n_batches, rows, n_empty) in lasts {
        let options = LoaderOptions { last, ..options(2) };
        let batches = epoch(&options, 0)?;
        assert_eq!(batches.len(), n_batches);
        let batch = &batches[n_batches - 1];
        assert_eq!(batch.data.0.shape(), [rows, 2], "{last:?}");
        assert_eq!(
            (batch.n_empty, batch.indices.len()),
            (n_empty, rows - n_empty)
        );
        assert!(
            batch.data.0.values()[..2 * n_empty]
                .iter()
                .all(|x| *x == 0.0)
        );
        assert_eq!(batch.data.1.values()[n_empty] as usize, batch.indices[0]);
    }
    Ok(())
}

#[test]
fn a_saved_cursor_goes_on_with_the_batches_that_are_left() -> Result<()> {
    let loader = DataLoader::new(Counted(61), options(2))?;
    let loader = loader.with_transform(noisy);
    let whole: Vec<_> = loader
        .batches(Cursor::start_of(2))?
        .collect::<Result<_>>()?;
    let mut batches = loader.batches(Cursor::start_of(2))?;
    batches.by_ref().take(3).for_each(drop);
    let saved = batches.cursor();
    assert_eq!(saved, Cursor { epoch: 2, batch: 3 });
    let rest: Vec<_> = loader.batches(saved)?.collect::<Result<_>>()?;
    assert_eq!(rest, whole[3..]);
    assert_eq!(loader.load(saved)?, whole[3]);
    let mut ended = loader.batches(Cursor { epoch: 2, batch: 8 })?;
    assert!(ended.next().is_none());
    assert_eq!(ended.cursor(), Cursor::start_of(3));
    let beyond = loader.batches(Cursor { epoch: 2, batch: 9 });
    let expected = "data_loader: the cursor is at batch 9 of an epoch that has 8";
    assert_eq!(
        beyond.err().map(|error| error.to_string()),
        Some(expected.to_owned())
    );
    Ok(())
}

#[test]
fn uploaded_batches_are_those_of_the_host() -> Result<()> {
    for device in hlx_core::testing::devices() {
        for workers in [0, 2] {
            let expected = epoch(&options(workers), 1)?;
            let loader = DataLoader::new(Counted(61), options(workers))?;
            let loader = loader.with_transform(noisy);
            let mut batches = loader.batches(Cursor::start_of(1))?.to_device(device, 2);
            for (at, expected) in expected.iter().enumerate() {
                assert_eq!(batches.cursor().batch, at as u64);
                let Some(batch) = batches.next().transpose()? else {
                    panic!("batch {at} is missing");
                };
                assert_eq!(batch.indices, expected.indices);
                assert_eq!(batch.data.0.to_vec::<f32>()?, expected.data.0.values());
                let labels = batch.data.1.to_vec::<u32>()?;
                assert_eq!(labels, expected.data.1.values());
            }
            assert!(batches.next().is_none());
            assert_eq!(batches.cursor(), Cursor::start_of(2));
        }
    }
    Ok(())
}

/// Samples that have been read so far.
static READ: AtomicUsize = AtomicUsize::new(0);

#[test]
fn workers_begin_no_more_batches_than_stated() -> Result<()> {
    let counted = |item: Sample, _: SampleKey| {
        READ.fetch_add(1, Ordering::SeqCst);
        Ok(item)
    };
    let options = LoaderOptions {
        prefetch: 2,
        ..options(4)
    };
    let loader = DataLoader::new(Counted(800), options)?;
    let loader = loader.with_transform(counted);
    let mut batches = loader.batches(Cursor::default())?;
    for taken in 1..=5 {
        batches.next().transpose()?;
        // What might be begun too early has the time for it.
        thread::sleep(Duration::from_millis(5));
        assert!(READ.load(Ordering::SeqCst) <= 8 * (taken + 2));
    }
    drop(batches); // Ends although 95 batches are left.
    Ok(())
}

#[test]
fn a_workers_error_comes_in_its_place_and_ends_the_epoch() -> Result<()> {
    let failing = |(array, label): Sample, _: SampleKey| match label {
        19 => Err("the file is gone".into()),
        _ => Ok((array, label)),
    };
    for workers in [0, 3] {
        let options = LoaderOptions {
            shuffle: false,
            ..options(workers)
        };
        let loader = DataLoader::new(Counted(61), options)?;
        let loader = loader.with_transform(failing);
        let mut batches = loader.batches(Cursor::default())?;
        assert!(matches!(batches.next(), Some(Ok(_))));
        assert!(matches!(batches.next(), Some(Ok(_))));
        let text = match batches.next() {
            Some(Err(error)) => error.to_string(),
            _ => "no error".to_owned(),
        };
        assert_eq!(text, "sample 19: the file is gone");
        assert!(batches.next().is_none());
        assert_eq!(batches.cursor(), Cursor { epoch: 0, batch: 2 });
    }
    Ok(())
}

#[test]
fn a_panic_is_an_error_that_names_the_sample() -> Result<()> {
    let panicking = |item: Sample, _: SampleKey| match item.1 {
        9 => panic!("label {}", item.1),
        _ => Ok(item),
    };
    for workers in [0, 2] {
        let options = LoaderOptions {
            shuffle: false,
            ..options(workers)
        };
        let loader = DataLoader::new(Counted(30), options)?;
        let results: Vec<_> = loader
            .with_transform(panicking)
            .batches(Cursor::default())?
            .collect();
        assert_eq!(results.len(), 2);
        let text = results[1].as_ref().err().map(ToString::to_string);
        assert_eq!(
            text.as_deref(),
            Some("batch 1: a worker thread panicked at sample 9: label 9")
        );
    }
    Ok(())
}

#[test]
fn options_that_make_no_batch_are_refused() {
    let message = |options| {
        let loader = DataLoader::new(Counted(3), options);
        loader.err().map(|error| error.to_string())
    };
    let empty = LoaderOptions {
        batch_size: 0,
        ..options(0)
    };
    let expected = "data_loader: batch_size is 0, expected at least 1";
    assert_eq!(message(empty).as_deref(), Some(expected));
    let none_ahead = LoaderOptions {
        prefetch: 0,
        ..options(1)
    };
    let expected = "data_loader: prefetch is 0, expected at least 1";
    assert_eq!(message(none_ahead).as_deref(), Some(expected));
    let hostile = [
        LoaderOptions {
            batch_size: usize::MAX,
            ..options(0)
        },
        LoaderOptions {
            workers: usize::MAX,
            ..options(0)
        },
        LoaderOptions {
            prefetch: usize::MAX,
            ..options(1)
        },
    ];
    for options in hostile {
        let line = message(options).expect("refused");
        assert!(
            line.contains(" is 18446744073709551615, expected at most "),
            "{line}"
        );
    }
}

#[test]
fn a_set_without_samples_has_no_batches() -> Result<()> {
    let loader = DataLoader::new(Counted(0), options(2))?;
    assert!(loader.is_empty());
    assert_eq!(loader.batches(Cursor::default())?.count(), 0);
    Ok(())
}
