//! The event file's bytes against TensorBoard's own writer.

use super::*;

/// The file that `tests/fixtures/make_tfevents.py` writes with TensorBoard's writer.
const FIXTURE: &[u8] = include_bytes!("../../../tests/fixtures/events.tfevents");

fn metrics() -> [Metric; 4] {
    [
        Metric::Train {
            step: 300,
            epoch: 1.5,
            loss: 2.25,
            grad_norm: 0.75,
            learning_rate: 0.001,
            ms_per_step: 30.5,
            tokens_per_second: Some(123_456.0),
            images_per_second: None,
            share_of_peak: Some(0.5),
            router_balance: None,
            memory_bytes: None,
            exchange: None,
            skipped: Some(2),
        },
        Metric::Eval {
            step: 300,
            split: EvalSplit::HeldOut,
            loss: 1.5,
            perplexity: Some(4.5),
            loss_with_end: Some(1.5),
            n_bytes: Some(99),
            n_tokens: None,
            accuracy: None,
            n_images: None,
        },
        Metric::Eval {
            step: 70_000,
            split: EvalSplit::Train,
            loss: 0.125,
            perplexity: None,
            loss_with_end: None,
            n_bytes: None,
            n_tokens: None,
            accuracy: Some(0.875),
            n_images: Some(8),
        },
        Metric::Sample {
            step: 300,
            prompt: "ROMEO:".to_owned(),
            text: "\nO Tybalt, äh.".to_owned(),
        },
    ]
}

#[test]
fn the_bytes_are_those_of_tensorboards_writer() {
    let time = 1_700_000_000.25;
    let mut events = vec![version(time), session_start(time, 7)];
    events.extend(metrics().iter().map(|metric| metric_event(metric, time)));
    let found: Vec<u8> = events.iter().flat_map(|event| record(event)).collect();
    assert_eq!(found, FIXTURE);
}

/// The data of each record, with both its CRCs proved.
fn records(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while !file.is_empty() {
        let (length, rest) = file.split_at(8);
        let n = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"));
        assert_eq!(word(rest), masked_crc(length));
        let data = &rest[4..4 + n];
        assert_eq!(word(&rest[4 + n..]), masked_crc(data));
        found.push(data.to_vec());
        file = &rest[8 + n..];
    }
    found
}

#[test]
fn every_record_of_a_file_has_its_crcs() {
    let folder = std::env::temp_dir().join(format!("hlx-events-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    for step in [0, 300] {
        let mut file = EventFile::create(&folder, step).expect("creates");
        for metric in metrics() {
            file.append(&metric).expect("appends");
        }
        let bytes = std::fs::read(&file.path).expect("reads");
        let found = records(&bytes);
        assert_eq!(found.len(), 2 + metrics().len());
        assert!(found[0].ends_with(b"brain.Event:2"));
    }
    let n_files = std::fs::read_dir(&folder).expect("reads").count();
    assert_eq!(n_files, 2, "a stretch has a file of its own");
    std::fs::remove_dir_all(folder).expect("cleared");
}

/// The check values of RFC 3720, appendix B.4, and of the catalogue of CRCs.
#[test]
fn crc32c_has_its_check_values() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    let rising: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&rising), 0x46dd_794e);
}
