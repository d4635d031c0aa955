//! Preparing corpora: formats, compression, threads, stops, faults.

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use hlx_text::{
    BpeTrainer, Companion, PrepareOptions, Result, ShardOptions, ShardWriter, SourceFormat,
    TextError, TokenShards, Tokenizer, WordCounts, prepare,
};

const CORPUS: &str = include_str!("fixtures/corpus.txt");

/// A folder that is removed with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("hlx-prepare-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, bytes).expect("written");
        path
    }

    fn options(&self, inputs: &[PathBuf], out: &str) -> PrepareOptions {
        PrepareOptions {
            threads: 2,
            ..PrepareOptions::new(inputs.to_vec(), self.0.join(out))
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(options: &PrepareOptions, tokenizer: &Tokenizer) -> Result<TokenShards> {
    prepare(options, tokenizer, |_| ControlFlow::Continue(()))
}

fn fails(options: &PrepareOptions, tokenizer: &Tokenizer) -> String {
    let line = run(options, tokenizer).expect_err("must fail").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

fn bpe() -> Result<Tokenizer> {
    let mut counts = WordCounts::default();
    counts.add(CORPUS);
    let trainer = BpeTrainer {
        vocabulary_size: 400,
        ..BpeTrainer::default()
    };
    trainer.train(counts, |_, _| ControlFlow::Continue(()))
}

fn documents(shards: &TokenShards) -> Result<Vec<Vec<u32>>> {
    let n = shards.n_documents();
    (0..n)
        .map(|number| shards.read(shards.document(number)?))
        .collect()
}

/// Every file of a folder, with its name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn text_pairs_and_files_become_documents() -> Result<()> {
    let folder = Folder::new("formats");
    let tokenizer = bpe()?;
    let a = folder.file("in/a.txt", "the river\n");
    let lines = "{\"text\": \"of light\", \"other\": [1]}\n\n\
                 {\"input\": \"2+2\", \"output\": \"4\"}\n";
    folder.file("in/b/c.jsonl", lines);
    folder.file("in/.hidden", "not read");
    let shards = run(&folder.options(&[folder.0.join("in")], "out"), &tokenizer)?;
    let encode = |text: &str| tokenizer.encode(text);
    let with_end = |mut tokens: Vec<u32>| {
        tokens.push(0);
        tokens
    };
    let pair = with_end([encode("2+2")?, encode("\n")?, encode("4")?].concat());
    let expected = [
        with_end(encode("the river\n")?),
        with_end(encode("of light")?),
        pair,
    ];
    assert_eq!(documents(&shards)?, expected);
    let trained = shards.trained(shards.document(2)?)?;
    let n = trained.len();
    assert!(trained[..n - 2].iter().all(|&flag| !flag) && trained[n - 2] && trained[n - 1]);
    assert_eq!(shards.tokenizer_digest(), Some(tokenizer.digest()));
    let out = folder.0.join("out");
    assert_eq!(Tokenizer::open(&out)?.digest(), tokenizer.digest());
    let names: Vec<String> = files(&out).into_iter().map(|(name, _)| name).collect();
    let whole = [
        "index.json",
        "preparation.json",
        "shard-00000.bin",
        "shard-00000.mask",
        "shard-00000.starts",
    ];
    assert_eq!(names, [&whole[..], &["tokenizer.json"]].concat());
    shards.verify()?;

    // Globs, a separator of documents, no end.
    let glob = folder.0.join("in/*.t?t");
    let options = PrepareOptions {
        separator: Some(" ".to_owned()),
        end: false,
        ..folder.options(&[glob, a], "cut")
    };
    let shards = run(&options, &tokenizer)?;
    let [the, river] = [encode("the")?, encode("river\n")?];
    assert_eq!(
        documents(&shards)?,
        [the.clone(), river.clone(), the, river]
    );
    let bytes = folder.options(&[folder.0.join("in/b")], "bytes");
    let shards = run(&bytes, &Tokenizer::bytes())?;
    assert_eq!(documents(&shards)?[1], b"2+2\x1e4\x04".map(u32::from));
    Ok(())
}

#[test]
fn chats_are_laid_out_and_answers_trained_on() -> Result<()> {
    let folder = Folder::new("chats");
    let line = "{\"messages\": [{\"role\": \"user\", \"content\": \"river?\"}, \
                {\"role\": \"assistant\", \"content\": \"light\"}]}\n";
    let input = folder.file("chat.jsonl", line);
    let tokenizer = bpe()?;
    let missing = fails(
        &folder.options(std::slice::from_ref(&input), "none"),
        &tokenizer,
    );
    assert!(
        missing.contains("chat.jsonl: 1: chat_template: `messages` need"),
        "{missing}"
    );
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}\
                    {% if add_generation_prompt %}assistant: {% endif %}";
    let options = PrepareOptions {
        template: Some(template.to_owned()),
        ..folder.options(std::slice::from_ref(&input), "out")
    };
    let shards = run(&options, &tokenizer)?;
    let [given, learnt] = ["user: river?<|endoftext|>assistant: ", "light<|endoftext|>"];
    let (given, learnt) = (tokenizer.encode(given)?, tokenizer.encode(learnt)?);
    assert_eq!(
        shards.read(0..shards.len())?,
        [&given[..], &learnt].concat()
    );
    let flags = shards.trained(0..shards.len())?;
    assert!(flags[..given.len()].iter().all(|&flag| !flag));
    assert!(flags[given.len()..].iter().all(|&flag| flag));
    let raising = PrepareOptions {
        template: Some("{{ raise_exception('only one turn') }}".to_owned()),
        ..folder.options(&[input], "raises")
    };
    let line = fails(&raising, &tokenizer);
    assert!(
        line.ends_with("chat.jsonl: 1: chat_template: line 1: only one turn"),
        "{line}"
    );
    Ok(())
}

#[test]
fn a_long_text_cut_into_chunks_has_the_tokens_of_the_whole() -> Result<()> {
    let folder = Folder::new("long");
    let tokenizer = bpe()?;
    let text = CORPUS.repeat(400);
    assert!(text.len() > 3 << 20);
    let plain = folder.file("a.txt", &text);
    let shards = run(&folder.options(&[plain], "plain"), &tokenizer)?;
    let mut expected = tokenizer.encode(&text)?;
    expected.push(0);
    assert_eq!(documents(&shards)?, [expected]);
    // Compressed, in two members or frames, the same tokens.
    let (first, second) = text.split_at(text.len() / 3);
    for (name, compress) in [
        ("b.txt.gz", gzip as fn(&[u8]) -> Vec<u8>),
        ("c.txt.zst", zstd),
    ] {
        let parts = [compress(first.as_bytes()), compress(second.as_bytes())].concat();
        let input = folder.file(name, parts);
        let out = format!("out-{name}");
        let found = run(&folder.options(&[input], &out), &tokenizer)?;
        assert_eq!(found.digest()?, shards.digest()?, "{name}");
    }
    Ok(())
}

/// A corpus of some chunks in several files and formats.
fn corpus(folder: &Folder) -> PathBuf {
    folder.file("in/a.txt", CORPUS.repeat(150));
    let lines: Vec<String> = CORPUS
        .lines()
        .cycle()
        .take(30_000)
        .enumerate()
        .map(|(number, line)| {
            let line = serde_json::to_string(line).expect("JSON");
            match number % 3 {
                0 => format!("{{\"input\": \"{number}\", \"output\": {line}}}\n"),
                _ => format!("{{\"text\": {line}}}\n"),
            }
        })
        .collect();
    folder.file("in/b.jsonl.gz", gzip(lines.concat().as_bytes()));
    folder
        .file("in/c.txt", CORPUS.repeat(120))
        .parent()
        .expect("a folder")
        .to_owned()
}

#[test]
fn threads_and_stops_change_no_byte() -> Result<()> {
    let folder = Folder::new("stops");
    let tokenizer = bpe()?;
    let input = corpus(&folder);
    let options = |threads, out: &str| PrepareOptions {
        shard_tokens: 100_000,
        threads,
        ..folder.options(std::slice::from_ref(&input), out)
    };
    let whole = run(&options(1, "whole"), &tokenizer)?;
    whole.verify()?;
    assert_eq!(whole.n_documents(), 30_002);
    let expected = files(&folder.0.join("whole"));
    assert!(expected.len() >= 8, "{} files", expected.len());
    run(&options(4, "threads"), &tokenizer)?;
    assert!(files(&folder.0.join("threads")) == expected);
    for every in [1, 2, 3] {
        let out = format!("stopped-{every}");
        let mut calls = 0;
        loop {
            let mut chunks = 0;
            let done = prepare(&options(2, &out), &tokenizer, |_| {
                chunks += 1;
                match chunks > every {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            calls += 1;
            match done {
                Ok(_) => break,
                Err(error) => assert!(error.to_string().contains("was stopped"), "{error}"),
            }
            assert!(calls < 40, "no progress");
            // What a kill leaves.
            let left = folder.0.join(&out).join(".shard-00001.bin.1-2.tmp");
            fs::write(left, b"a part").expect("written");
        }
        assert!(calls > 1);
        let found = files(&folder.0.join(&out));
        assert!(found == expected, "stopped after {every} chunks");
    }
    Ok(())
}

#[test]
fn tokens_of_other_programs_are_cut_into_documents() -> Result<()> {
    let folder = Folder::new("tokens");
    let tokenizer = bpe()?;
    let bytes = |ids: &[u16]| -> Vec<u8> { ids.iter().flat_map(|id| id.to_le_bytes()).collect() };
    let nanogpt = folder.file("a.bin", bytes(&[5, 6, 0, 7, 0, 8]));
    let shards = run(&folder.options(&[nanogpt], "a"), &tokenizer)?;
    assert_eq!(documents(&shards)?, [vec![5, 6, 0], vec![7, 0], vec![8]]);
    let mut header = [0_u32; 256];
    header[..3].copy_from_slice(&[20_240_520, 1, 6]);
    let header: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let llm_c = [header, bytes(&[0, 5, 6, 0, 7, 8])].concat();
    let llm_c = folder.file("b.bin", llm_c);
    let shards = run(&folder.options(&[llm_c], "b"), &tokenizer)?;
    assert_eq!(documents(&shards)?, [vec![0, 5, 6], vec![0, 7, 8]]);
    // Many chunks.
    let long: Vec<u16> = (0..2_000_000_u32)
        .map(|at| (at % 1013 % 400) as u16)
        .collect();
    let long_file = folder.file("c.bin", bytes(&long));
    let shards = run(&folder.options(&[long_file], "c"), &tokenizer)?;
    let n = long.iter().filter(|&&id| id == 0).count() as u64;
    assert_eq!((shards.len(), shards.n_documents()), (2_000_000, n + 1));
    let large = folder.file("d.bin", bytes(&[400]));
    let line = fails(&folder.options(&[large], "d"), &tokenizer);
    assert!(
        line.ends_with("the token 400 is out of range: the vocabulary has 400"),
        "{line}"
    );
    Ok(())
}

#[test]
fn faults_name_the_file_and_the_line() -> Result<()> {
    let folder = Folder::new("faults");
    let tokenizer = Tokenizer::bytes();
    let mut number = 0;
    let mut line = |name: &str, bytes: &[u8]| {
        number += 1;
        let input = folder.file(name, bytes);
        fails(
            &folder.options(&[input], &format!("out-{number}")),
            &tokenizer,
        )
    };
    assert!(line("empty.txt", b"").ends_with("empty.txt: is empty"));
    assert!(line("empty.jsonl", b"").ends_with("empty.jsonl: is empty"));
    assert!(line("blank.jsonl", b"\n \n").ends_with("blank.jsonl: holds no text"));
    assert!(line("blank.txt", b"\n \n").ends_with("blank.txt: holds no text"));
    assert!(line("bad.txt", b"a\nb\xff").ends_with("bad.txt: 2: not UTF-8 at byte 3"));
    let good = "{\"text\": \"a\"}\n";
    let second = |text: &str| format!("{good}{text}\n").into_bytes();
    assert!(line("a.jsonl", &second("{")).contains("a.jsonl: 2: malformed JSON: EOF"));
    assert!(line("b.jsonl", &second("{}")).contains("b.jsonl: 2: has neither `text`"));
    assert!(line("c.jsonl", &second("{\"text\": 1}")).contains("expected a string"));
    let far = [good.repeat(200_000), "no".to_owned()].concat();
    assert!(line("far.jsonl", far.as_bytes()).contains("far.jsonl: 200001: malformed"));
    let cut = gzip(CORPUS.as_bytes());
    assert!(line("cut.txt.gz", &cut[..cut.len() / 2]).contains("cut.txt.gz: "));
    let cut = zstd(CORPUS.as_bytes());
    assert!(line("cut.txt.zst", &cut[..cut.len() / 2]).contains("cut.txt.zst: "));
    let mut flipped = zstd(CORPUS.as_bytes());
    let at = flipped.len() - 3;
    flipped[at] ^= 1;
    assert!(line("flipped.txt.zst", &flipped).contains("checksum"));
    assert!(line("odd.bin", b"abc").contains("no whole number of u16"));
    let missing = folder.options(&[folder.0.join("none.txt")], "none");
    assert!(fails(&missing, &tokenizer).ends_with("none.txt: is not there"));
    let glob = folder.options(&[folder.0.join("*.none")], "none");
    assert!(fails(&glob, &tokenizer).ends_with("*.none: holds no file"));
    let none = folder.options(&[], "none");
    assert_eq!(fails(&none, &tokenizer), "data_prepare: no files are named");
    Ok(())
}

/// `alpaca_data.json` and its like were refused with an error of JSON in line 1.
#[test]
fn a_list_and_objects_over_several_lines_are_records() -> Result<()> {
    let folder = Folder::new("lists");
    let tokenizer = bpe()?;
    let (one, two) = (
        "{\"text\": \"of\\n[light]\"}",
        "{\"input\": \"a\", \"output\": \"b\"}",
    );
    let lines = folder.file("a.jsonl", format!("{one}\n{two}\n"));
    let expected = run(&folder.options(&[lines], "lines"), &tokenizer)?;
    let pretty = |text: &str| {
        text.replace(", ", ",\n  ")
            .replace('{', "{\n  ")
            .replace('}', "\n}")
    };
    let cases = [
        ("list.json", format!("[{one},{two}]").into_bytes()),
        (
            "pretty.json",
            format!("\u{feff}[\n{},\n{}\n]\n", pretty(one), pretty(two)).into_bytes(),
        ),
        (
            "several.json",
            format!("{}\n\n{}", pretty(one), pretty(two)).into_bytes(),
        ),
        ("list.json.gz", gzip(format!("[{one},\n{two}]").as_bytes())),
        ("list.json.zst", zstd(format!("[{one},\n{two}]").as_bytes())),
        ("marked.jsonl", format!("\u{feff}{one}\n{two}").into_bytes()),
        ("crlf.jsonl", format!("{one}\r\n{two}\r\n").into_bytes()),
    ];
    for (name, bytes) in cases {
        let input = folder.file(name, bytes);
        let found = run(
            &folder.options(&[input], &format!("out-{name}")),
            &tokenizer,
        )?;
        assert_eq!(found.digest()?, expected.digest()?, "{name}");
    }
    // Many chunks, stopped after each.
    let long = [one, two].repeat(40_000).join(",\n");
    let list = folder.file("long.json", format!("[{long}]"));
    let options = PrepareOptions {
        shard_tokens: 100_000,
        ..folder.options(&[list], "long")
    };
    let whole = run(&options, &tokenizer)?;
    assert_eq!(whole.n_documents(), 80_000);
    let stopped = PrepareOptions {
        out: folder.0.join("stopped"),
        ..options
    };
    let mut n_calls = 0;
    let found = loop {
        let mut n_chunks = 0;
        n_calls += 1;
        let done = prepare(&stopped, &tokenizer, |_| {
            n_chunks += 1;
            match n_chunks > 2 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if let Ok(shards) = done {
            break shards;
        }
        assert!(n_calls < 20, "no progress");
    };
    assert!(n_calls > 1);
    assert_eq!(found.digest()?, whole.digest()?);
    let files =
        ["long", "stopped"].map(|out| fs::read(folder.0.join(out).join("preparation.json")));
    assert_eq!(files[0].as_ref().ok(), files[1].as_ref().ok());
    Ok(())
}

#[test]
fn files_that_are_no_text_are_named_by_what_they_are() {
    let folder = Folder::new("foreign-files");
    for (name, bytes, expected) in [
        ("a.json", &b"[]"[..], "is a list of no record"),
        (
            "b.json",
            b"[{\"text\": \"a\"}, {\"text\": 3}]",
            "element 2: `text` is a number",
        ),
        ("c.json", b"[{\"text\": \"a\"}", "ends within its list"),
        (
            "d.json",
            b"\"a text\"",
            "1: is a string, expected an object",
        ),
        (
            "e.parquet",
            b"PAR1\x15\x04",
            "is Parquet, expected text: convert it to JSON lines",
        ),
        (
            "f.arrow",
            b"ARROW1\0\0",
            "is an Arrow file, expected text: convert",
        ),
        (
            "g.zip",
            b"PK\x03\x04\x14",
            "is a zip archive, expected text: unpack it",
        ),
        (
            "h.txt.bz2",
            b"BZh91AY&SY\x12",
            "is compressed with bzip2, expected text: decompress it",
        ),
        ("i.txt", b"\xff\xfea\0", "is UTF-16, expected UTF-8"),
        (
            "j.csv",
            b"text\na\n",
            "is a table by its name: convert it to JSON lines",
        ),
        ("k.jsonl.gz", &gzip(b"PAR1\x15"), "is Parquet"),
        (
            "o.txt",
            b"version https://git-lfs.github.com/spec/v1\noid",
            "is a pointer of git-lfs",
        ),
        ("l.tsv.gz", &gzip(b"a\tb"), "is a table by its name"),
    ] {
        let input = folder.file(name, bytes);
        let line = fails(
            &folder.options(&[input], &format!("out-{name}")),
            &Tokenizer::bytes(),
        );
        assert!(line.contains(&format!("{name}: {expected}")), "{line}");
    }
    let orc = folder.file("orc.txt", "ORC and PAR1 are words");
    assert!(run(&folder.options(&[orc], "orc"), &Tokenizer::bytes()).is_ok());
    let table = folder.file("m.csv", "text\n");
    let options = PrepareOptions {
        format: Some(SourceFormat::Text),
        ..folder.options(&[table], "table")
    };
    assert_eq!(run(&options, &Tokenizer::bytes()).expect("a text").len(), 6);
}

#[test]
fn a_folder_is_not_mixed_with_another_work() -> Result<()> {
    let folder = Folder::new("mixed");
    let input = folder.file("a.txt", "a text");
    let options = folder.options(&[input], "out");
    let stopped = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(TextError::File { .. })));
    let other = PrepareOptions {
        end: false,
        ..options.clone()
    };
    let line = fails(&other, &Tokenizer::bytes());
    assert!(
        line.contains("was begun with other files, options or tokenizer"),
        "{line}"
    );
    let line = fails(&options, &Tokenizer::characters_of("a text")?);
    assert!(line.contains("was begun with other"), "{line}");
    run(&options, &Tokenizer::bytes())?;
    let line = fails(&options, &Tokenizer::bytes());
    assert!(line.ends_with("holds token shards already"), "{line}");
    let begins = PrepareOptions {
        begin: Some(true),
        format: Some(SourceFormat::Text),
        ..folder.options(&options.inputs, "begins")
    };
    let line = fails(&begins, &Tokenizer::bytes());
    assert!(
        line.contains("states no token that begins a document"),
        "{line}"
    );
    Ok(())
}

/// A preparation that was killed after its index lacked the chat template for good, and passed for whole.
#[test]
fn a_preparation_killed_behind_its_index_gets_what_belongs_to_it() -> Result<()> {
    let folder = Folder::new("indexed");
    let input = folder.file("a.txt", "a text");
    let options = PrepareOptions {
        companions: vec![Companion {
            name: "chat_template.jinja".to_owned(),
            bytes: b"{{ messages }}".to_vec(),
        }],
        ..folder.options(&[input], "out")
    };
    let stopped = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Break(()));
    assert!(stopped.is_err());
    let line = TokenShards::open(&options.out).expect_err("has no index");
    let expected = "is not whole: the same `hlx data prepare` goes on with it";
    assert!(line.to_string().ends_with(expected), "{line}");
    assert!(
        options.out.join("chat_template.jinja").is_file(),
        "before the index"
    );
    let state = fs::read(options.out.join("progress.json")).expect("a state");
    run(&options, &Tokenizer::bytes())?;
    let whole = files(&options.out);
    folder.file("out/progress.json", state);
    folder.file("out/lock", "");
    fs::remove_file(options.out.join("chat_template.jinja")).expect("removed");
    run(&options, &Tokenizer::bytes())?;
    assert_eq!(files(&options.out), whole);
    Ok(())
}

#[test]
fn a_state_that_goes_on_behind_the_last_file_is_an_error() -> Result<()> {
    let folder = Folder::new("behind");
    let input = folder.file("in.txt", "the river of light\n".repeat(90_000));
    let options = folder.options(std::slice::from_ref(&input), "out");
    let stopped = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Break(()));
    assert!(stopped.is_err_and(|error| error.to_string().contains("was stopped")));
    let path = options.out.join("progress.json");
    let state = fs::read_to_string(&path).expect("a state");
    assert!(state.contains("\"source\": 0"), "{state}");
    for (file, offset) in [("5", "1"), ("1", "1"), ("18446744073709551615", "0")] {
        let state = state.replacen("\"source\": 0", &format!("\"source\": {file}"), 1);
        let (before, after) = state.split_once("\"offset\": ").expect("an offset");
        let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
        fs::write(&path, format!("{before}\"offset\": {offset}{after}")).expect("written");
        let line = fails(&options, &Tokenizer::bytes());
        assert!(line.contains(&format!("file {file} of ")), "{line}");
    }
    Ok(())
}

/// A preparation took any folder for its own: it emptied `lock`, removed `progress.json`, everything that was
/// called `.*.tmp`, and wrote over `tokenizer.json`, even where it refused the folder in the end.
/// A template of another kind, or with a fault, stopped texts that need none.
#[test]
fn a_template_that_cannot_be_used_stops_chats_alone() -> Result<()> {
    let folder = Folder::new("prepare-template");
    let json = bpe()?.to_json().to_owned();
    folder.file("own/tokenizer.json", json);
    folder.file("own/chat_template.jinja", "{% for m in messages %}");
    let tokenizer = Tokenizer::open(folder.0.join("own"))?;
    let texts = folder.file("a.jsonl", "{\"text\": \"the river\"}\n");
    run(&folder.options(&[texts], "texts"), &tokenizer)?;
    for record in [
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n",
        "{\"instruction\": \"a\", \"output\": \"b\"}\n",
    ] {
        let chats = folder.file("b.jsonl", record);
        let line = fails(&folder.options(&[chats], "chats"), &tokenizer);
        assert!(line.contains("b.jsonl: 1: chat_template: line 1"), "{line}");
    }
    Ok(())
}

/// The begun folder was left, and the corrected command was refused because of it.
#[test]
fn a_preparation_that_fails_before_a_whole_shard_leaves_nothing_behind() -> Result<()> {
    let folder = Folder::new("prepare-failed");
    let corpus = folder.file("a.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
    let mut options = folder.options(std::slice::from_ref(&corpus), "tokens");
    options.companions = vec![Companion {
        name: "chat_template.jinja".to_owned(),
        bytes: b"{{ messages }}".to_vec(),
    }];
    let line = fails(&options, &Tokenizer::bytes());
    assert!(line.contains("a.jsonl: 2: "), "{line}");
    assert!(!options.out.exists());
    // A folder of the user's stays, empty as it was.
    fs::create_dir(&options.out).expect("a folder");
    fails(&options, &Tokenizer::bytes());
    assert!(files(&options.out).is_empty());
    // Whole shards stay, which the same command continues after.
    let lines = "{\"text\": \"a line of text\"}\n".repeat(60_000);
    folder.file("a.jsonl", lines.clone() + "{\"text\": 2}\n");
    options.shard_tokens = 1000;
    fails(&options, &Tokenizer::bytes());
    assert!(options.out.join("shard-00000.bin").is_file());
    let before = fs::read(options.out.join("shard-00000.bin")).expect("a shard");
    let line = fails(&options, &Tokenizer::bytes());
    assert!(line.contains("a.jsonl: 60001: "), "{line}");
    assert_eq!(
        fs::read(options.out.join("shard-00000.bin")).expect("a shard"),
        before
    );
    Ok(())
}

#[test]
fn a_folder_of_others_is_not_touched() -> Result<()> {
    let folder = Folder::new("foreign");
    let input = folder.file("a.txt", "a text");
    let cases: [&[(&str, &str)]; 7] = [
        &[("lock", "a user's")],
        &[("progress.json", "{}")],
        &[("progress.json", "")],
        &[(".notes.tmp", "a user's")],
        &[("tokenizer.json", "{}"), ("lock", "")],
        &[("index.json", "{}")],
        &[("shard-00000.bin", "a user's")],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let out = format!("out-{number}");
        for (name, text) in case {
            folder.file(&format!("{out}/{name}"), text);
        }
        let options = folder.options(std::slice::from_ref(&input), &out);
        let before = files(&options.out);
        let line = fails(&options, &Tokenizer::bytes());
        assert!(line.ends_with("; name an empty or a new folder"), "{line}");
        assert_eq!(files(&options.out), before, "{case:?}");
    }
    // What a kill before the first file leaves is not a hindrance.
    folder.file("left/lock", "");
    folder.file("left/.progress.json.7-0.tmp", "{");
    run(&folder.options(&[input], "left"), &Tokenizer::bytes())?;
    let names: Vec<_> = files(&folder.0.join("left"))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "index.json",
            "preparation.json",
            "shard-00000.bin",
            "shard-00000.starts",
            "tokenizer.json"
        ]
    );
    let options = ShardOptions::new(256);
    folder.file("writer/notes.txt", "a user's");
    assert!(ShardWriter::create(&folder.0.join("writer"), options).is_err());
    Ok(())
}

/// The folder of the result may lie in that of the corpus: a stopped preparation does not read its own shards.
#[test]
fn the_result_below_the_corpus_is_no_part_of_it() -> Result<()> {
    let folder = Folder::new("below");
    folder.file("corpus/a.txt", "a text");
    let options = folder.options(&[folder.0.join("corpus")], "corpus/tokens");
    let stopped = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Break(()));
    assert!(stopped.is_err());
    assert_eq!(run(&options, &Tokenizer::bytes())?.n_documents(), 1);
    Ok(())
}
