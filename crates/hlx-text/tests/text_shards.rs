//! Shards: what is written is read, over shards' ends; other programs' files; damaged folders.

use std::fs;
use std::path::{Path, PathBuf};

use hlx_text::{Document, Result, ShardOptions, ShardWriter, TokenShards};

/// A folder that is removed with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("hlx-shards-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::create_dir_all(&self.0).expect("a folder");
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Documents of 1 to 12 tokens; every third one is trained on from its middle.
fn documents(n: u32, vocabulary: u32) -> Vec<Document> {
    let document = |number: u32| {
        let n = number % 12 + 1;
        let tokens = (0..n).map(|at| (number * 31 + at * 7) % vocabulary);
        let trained = number % 3 == 2;
        Document {
            tokens: tokens.collect(),
            trained: trained.then(|| (0..n).map(|at| at >= n / 2).collect()),
        }
    };
    (0..n).map(document).collect()
}

fn write(folder: &Path, vocabulary_size: usize, documents: &[Document]) -> Result<TokenShards> {
    let options = ShardOptions {
        shard_tokens: 50,
        ..ShardOptions::new(vocabulary_size)
    };
    let mut writer = ShardWriter::create(folder, options)?;
    documents
        .iter()
        .try_for_each(|document| writer.add(document))?;
    writer.finish()?;
    TokenShards::open(folder)
}

fn fails<T: std::fmt::Debug>(result: Result<T>) -> String {
    let line = result.expect_err("must fail").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn shards_hold_what_was_written() -> Result<()> {
    for vocabulary in [1000, 1 << 16, (1 << 16) + 1] {
        let folder = Folder::new(&format!("whole-{vocabulary}"));
        let written = documents(40, 1000);
        let shards = write(&folder.0, vocabulary, &written)?;
        assert!(folder.0.join("shard-00003.bin").exists());
        let memory = TokenShards::from_documents(vocabulary, &written)?;
        shards.verify()?;
        for shards in [&shards, &memory] {
            assert_eq!(shards.n_documents(), 40);
            assert_eq!(shards.vocabulary_size(), vocabulary);
            let mut end = 0;
            for (number, document) in written.iter().enumerate() {
                let range = shards.document(number as u64)?;
                assert_eq!(range.start, end);
                end = range.end;
                assert_eq!(shards.read(range.clone())?, document.tokens);
                let all = vec![true; document.tokens.len()];
                let flags = document.trained.clone().unwrap_or(all);
                assert_eq!(shards.trained(range.clone())?, flags);
                for token in range {
                    assert_eq!(shards.document_at(token)?, number as u64);
                }
            }
            assert_eq!(end, shards.len());
        }
        // Every range, over the ends of shards too.
        let all = shards.read(0..shards.len())?;
        for start in 0..all.len() {
            for end in [start, all.len().min(start + 70)] {
                assert_eq!(shards.read(start as u64..end as u64)?, all[start..end]);
            }
        }
    }
    Ok(())
}

#[test]
fn a_shard_cut_short_while_it_is_in_use_is_an_error() -> Result<()> {
    let folder = Folder::new("cut-in-use");
    let written = documents(40, 1000);
    let shards = write(&folder.0, 1000, &written)?;
    let cut = |kind: &str| {
        let path = folder.0.join(format!("shard-00000.{kind}"));
        let file = fs::OpenOptions::new().write(true).open(path);
        file.expect("opens").set_len(2).expect("cut");
    };
    let expect = |kind: &str, line: String| {
        let file = format!("shard-00000.{kind}: was cut short while it was in use");
        assert!(line.contains(&file), "{line}");
    };
    cut("starts");
    expect("starts", fails(shards.document(3)));
    expect("starts", fails(shards.document_at(20)));
    expect("starts", fails(shards.split(0.95)));
    cut("mask");
    expect("mask", fails(shards.trained(30..40)));
    assert_eq!(shards.read(0..3)?.len(), 3);
    cut("bin");
    expect("bin", fails(shards.read(0..3)));
    expect("bin", fails(shards.check_below(1000)));
    expect("bin", fails(shards.verify()));
    // What is left of it still reads.
    assert_eq!(shards.read(0..1)?, written[0].tokens);
    Ok(())
}

#[test]
fn a_digest_tells_tokens_starts_and_masks_apart() -> Result<()> {
    let digest = |documents: &[Document]| {
        Ok(TokenShards::from_documents(9, documents)?
            .digest()?
            .to_owned())
    };
    let base = Document::new(vec![1, 2, 3, 4]);
    let masked = Document {
        trained: Some(vec![true, true, false, true]),
        ..base.clone()
    };
    let halves = [Document::new(vec![1, 2]), Document::new(vec![3, 4])];
    let digests: Vec<String> = [
        digest(std::slice::from_ref(&base))?,
        digest(&[masked])?,
        digest(&halves)?,
        digest(&[Document::new(vec![1, 2, 3, 5])])?,
    ]
    .into();
    for (at, one) in digests.iter().enumerate() {
        assert!(digests[..at].iter().all(|other| other != one));
    }
    assert_eq!(digest(&[base])?, digests[0]);
    Ok(())
}

#[test]
fn a_split_holds_out_whole_documents_at_the_end() -> Result<()> {
    let shards = TokenShards::from_documents(1000, &documents(40, 1000))?;
    let n = shards.len();
    let split = shards.split(0.1)?;
    assert_eq!(split.train.documents.end, split.eval.documents.start);
    assert_eq!(split.train.tokens.end, split.eval.tokens.start);
    assert_eq!((split.eval.documents.end, split.eval.tokens.end), (40, n));
    let start = shards.document(split.eval.documents.start)?.start;
    assert_eq!(start, split.eval.tokens.start);
    let held = split.eval.tokens.end - split.eval.tokens.start;
    assert!(held <= n / 10 && held + 12 > n / 10, "{held} of {n}");
    assert!(shards.split(0.0)?.eval.tokens.is_empty());
    assert_eq!(shards.split(1e-9)?.eval.documents, 39..40);
    assert_eq!(shards.split(1.0)?.train.documents, 0..1);
    let one = TokenShards::from_documents(9, &[Document::new(vec![1; 10])])?;
    assert_eq!(one.split(0.2)?.eval.tokens, 8..10);
    Ok(())
}

#[test]
fn files_of_nanogpt_and_llm_c_are_read() -> Result<()> {
    let folder = Folder::new("foreign");
    let plain: Vec<u8> = [5_u16, 50256, 7]
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .collect();
    let shards = TokenShards::open(folder.file("nanogpt.bin", &plain))?;
    assert_eq!(shards.read(0..3)?, [5, 50256, 7]);
    assert_eq!(
        (shards.n_documents(), shards.vocabulary_size()),
        (1, 1 << 16)
    );
    let header = |magic: u32, version: u32, n: u32| {
        let mut words = vec![0_u32; 256];
        words[..3].copy_from_slice(&[magic, version, n]);
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let gpt2 = [header(20_240_520, 1, 3), plain.clone()].concat();
    assert_eq!(
        TokenShards::from_bytes(gpt2.clone(), "b")?.read(1..3)?,
        [50256, 7]
    );
    let wide: Vec<u8> = [128_000_u32, 4]
        .iter()
        .flat_map(|id| id.to_le_bytes())
        .collect();
    let llama = [header(20_240_801, 7, 2), wide].concat();
    assert_eq!(
        TokenShards::from_bytes(llama, "b")?.read(0..2)?,
        [128_000, 4]
    );

    let wrong = |bytes: &[u8]| fails(TokenShards::from_bytes(bytes.to_vec(), "b"));
    assert_eq!(wrong(&[]), "b: holds no tokens");
    assert_eq!(
        wrong(&plain[..5]),
        "b: has 5 bytes, which are no whole number of u16 tokens"
    );
    let cut = "b: has 1028 bytes, the header states 3 tokens, which take 1030";
    assert_eq!(wrong(&gpt2[..1028]), cut);
    let short = "b: is cut short: llm.c's header has 1024 bytes, the file 100";
    assert_eq!(wrong(&gpt2[..100]), short);
    let version = "b: is version 2 of llm.c's tokens, expected 1";
    assert_eq!(wrong(&header(20_240_520, 2, 0)), version);
    assert_eq!(wrong(&header(20_240_520, 1, 0)), "b: holds no tokens");
    assert!(wrong(&header(20_240_522, 1, 0)).contains("multiple-choice"));
    assert!(fails(TokenShards::open(folder.0.join("none.bin"))).contains("No such file"));
    Ok(())
}

#[test]
fn damaged_folders_are_refused_by_name() -> Result<()> {
    let folder = Folder::new("damaged");
    let shards = write(&folder.0, 1000, &documents(40, 1000))?;
    drop(shards);
    let again = ShardWriter::create(&folder.0, ShardOptions::new(9))
        .err()
        .expect("is there");
    assert!(again.to_string().ends_with("index.json: is there already"));

    let damage = |name: &str, change: &dyn Fn(&mut Vec<u8>), open: bool| {
        let path = folder.0.join(name);
        let whole = fs::read(&path).expect("a file");
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&path, &bytes).expect("written");
        let opened = TokenShards::open(&folder.0);
        let line = match open {
            true => fails(opened.and_then(|shards| shards.verify())),
            false => fails(opened),
        };
        fs::write(&path, &whole).expect("written");
        assert!(line.contains(name), "{line}");
        line
    };
    let cut = damage(
        "shard-00001.bin",
        &|bytes| bytes.truncate(bytes.len() - 2),
        false,
    );
    assert!(cut.contains("bytes, the index states"), "{cut}");
    damage("shard-00000.starts", &|bytes| bytes.push(0), false);
    damage("shard-00000.mask", &|bytes| bytes.clear(), false);
    for name in ["shard-00001.bin", "shard-00000.starts", "shard-00000.mask"] {
        let flipped = damage(name, &|bytes| bytes[3] ^= 1, true);
        assert!(flipped.contains("has the SHA-256"), "{flipped}");
    }
    let replaced = |from: &'static str, to: &'static str| {
        move |bytes: &mut Vec<u8>| {
            let text = String::from_utf8_lossy(bytes).replacen(from, to, 1);
            *bytes = text.into_bytes();
        }
    };
    let index = |from, to| damage("index.json", &replaced(from, to), false);
    assert!(index("{", "[").contains("is no index of token shards"));
    assert!(index("\"version\": 1", "\"version\": 2").contains("version 2"));
    assert!(index("\"n_tokens\": ", "\"n_tokens\": 1").contains("where its shards have"));
    assert!(index("\"vocabulary_size\": 1000", "\"vocabulary_size\": 0").contains("vocabulary"));
    fs::remove_file(folder.0.join("index.json")).expect("removed");
    let missing = fails(TokenShards::open(&folder.0));
    assert!(
        missing.contains("a folder of token shards has an index"),
        "{missing}"
    );
    Ok(())
}

#[test]
fn tokens_and_ranges_out_of_range_are_refused() -> Result<()> {
    let folder = Folder::new("range");
    let shards = write(&folder.0, 1000, &documents(5, 1000))?;
    let n = shards.len();
    assert_eq!(n, 15);
    let range = fails(shards.read(10..16));
    assert_eq!(
        range,
        "read: the tokens 10 to 16 are out of range: there are 15"
    );
    let document = fails(shards.document(5));
    assert_eq!(
        document,
        "document: document 5 is out of range: there are 5"
    );
    assert!(fails(shards.document_at(u64::MAX)).contains("out of range"));
    let large = [Document::new(vec![1, 1000])];
    let token = "token_shards: the token 1000 is out of range: the vocabulary has 1000";
    assert_eq!(fails(TokenShards::from_documents(1000, &large)), token);
    let mask = Document {
        tokens: vec![1, 2],
        trained: Some(vec![true]),
    };
    let line = fails(TokenShards::from_documents(9, &[mask]));
    assert_eq!(line, "token_shards: the mask has 1 flags, expected 2");
    assert!(fails(TokenShards::from_documents(0, &[])).contains("the vocabulary has no token"));
    let path = folder.0.join("shard-00000.bin");
    drop(shards);
    let mut bytes = fs::read(&path).expect("a file");
    bytes[..2].copy_from_slice(&1000_u16.to_le_bytes());
    fs::write(&path, bytes).expect("written");
    let line = fails(TokenShards::open(&folder.0)?.read(0..2));
    let expected = "shard-00000.bin: the token 1000 at 0 is out of range: the vocabulary has 1000";
    assert!(line.ends_with(expected), "{line}");
    let empty = ShardWriter::create(&folder.0.join("none"), ShardOptions::new(9))?.finish();
    assert_eq!(fails(empty), "shard_writer: there are no tokens");
    Ok(())
}
