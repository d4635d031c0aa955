//! `hlx store`: the program, several of it at once, and ends before its time.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::Scratch;
use hlx_store::{Handle, Store};

const HLX: &str = env!("CARGO_BIN_EXE_hlx");

fn put(place: &Scratch, file: &str) -> Child {
    Command::new(HLX)
        .args(["store", "--store", "objects", "put", file])
        .current_dir(&place.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn store(place: &Scratch) -> Store {
    Store::open(place.path.join("objects")).expect("opens")
}

fn n_temporaries(place: &Scratch) -> usize {
    let folder: PathBuf = place.path.join("objects/tmp");
    fs::read_dir(folder).expect("reads").count()
}

#[test]
fn objects_go_in_come_out_and_are_collected() {
    let place = Scratch::new("store");
    let run = |arguments: &[&str]| {
        let all = [&["store", "--store", "objects"], arguments].concat();
        place.succeeds(&all).trim_end().to_owned()
    };
    let bytes = run(&["put", "config.toml"]);
    assert_eq!(run(&["put", "config.toml"]), bytes);
    place.write("eight.bin", "12345678");
    let tensor = run(&["put", "eight.bin", "--dtype", "f32", "--shape", "2,1"]);
    assert!(run(&["get", &bytes]).starts_with("seed = 7"));
    let line = run(&["get", &tensor, "-o", "back.bin"]);
    assert_eq!(line, "back.bin: f32 [2, 1], 8 bytes");
    let back = fs::read(place.path.join("back.bin")).expect("reads");
    assert_eq!(back, b"12345678");
    run(&["pin", "kept", &tensor]);
    let listed = run(&["list"]);
    assert!(listed.contains(&format!("{tensor} f32 [2, 1], 8 bytes")));
    assert!(listed.ends_with(&format!("pin kept {tensor}")), "{listed}");
    assert!(run(&["verify", &tensor]).contains("is whole"));
    assert!(run(&["verify"]).starts_with("2 objects are whole"));
    assert!(run(&["gc"]).ends_with("1 kept by name, 1 too young"));
    let collected = run(&["gc", "--older-than", "0"]);
    assert!(collected.starts_with(&bytes), "{collected}");
    run(&["unpin", "kept"]);
    assert!(run(&["gc", "--older-than", "0", "--dry-run"]).contains("would remove 1 objects"));
    assert!(run(&["verify"]).starts_with("1 objects are whole"));
}

#[test]
fn faults_are_one_line_and_keep_the_old_file() {
    let place = Scratch::new("store-faults");
    let store = store(&place);
    let handle = store.put_bytes(b"some content").expect("puts");
    let path = store.object_path(&handle);
    let mut file = fs::read(&path).expect("reads");
    file[30] ^= 1;
    fs::write(&path, file).expect("writes");
    place.write("out.txt", "old");
    let (text, folder) = (handle.to_string(), place.path.join("objects"));
    let folder = folder.to_string_lossy();
    let dashed = text.replace(':', "-");
    let cases: [(&[&str], &str); 12] = [
        (&["get", &text, "-o", "out.txt"], "is damaged"),
        (&["get", &text], "is damaged"),
        (&["verify", &text], "is damaged"),
        (&["verify"], "1 faults among 1 objects"),
        (&["get", "sha256:12"], "has 2 digits, expected 64"),
        (&["get", &dashed], "expected `sha256:`"),
        (&["put", "missing"], "missing: "),
        (&["put", "."], "is a folder"),
        (
            &["put", "out.txt", "--dtype", "f32", "--shape", "2"],
            "has 3 bytes, expected 8",
        ),
        (
            &["put", "out.txt", "--dtype", "f31", "--shape", "2"],
            "dtype `f31` is unknown",
        ),
        (&["pin", "a/b", &text], "`a/b` cannot name a pin"),
        (&["unpin", "a"], "no pin `a`"),
    ];
    for (arguments, reason) in cases {
        let all = [&["store", "--store", &folder], arguments].concat();
        let error = place.fails(&all);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
    assert_eq!(fs::read(place.path.join("out.txt")).expect("reads"), b"old");
    let error = place.fails(&["store", "--store", "out.txt/below", "list"]);
    assert!(error.contains("out.txt/below"), "{error}");
}

#[test]
fn processes_that_put_the_same_leave_one_object() {
    let place = Scratch::new("store-processes");
    let text = "the same in every process\n".repeat(20_000);
    place.write("same.txt", &text);
    let writers: Vec<Child> = (0..6).map(|_| put(&place, "same.txt")).collect();
    for writer in writers {
        let output = writer.wait_with_output().expect("ends");
        let printed = String::from_utf8_lossy(&output.stdout);
        let handle = Handle::of_bytes(text.as_bytes());
        assert_eq!(printed.trim_end(), handle.to_string());
    }
    let report = store(&place).verify_all(|_, _| ()).expect("walks");
    assert_eq!((report.n_objects, report.faults.len()), (1, 0));
    assert_eq!(n_temporaries(&place), 0);
}

#[test]
fn a_writer_killed_at_any_moment_leaves_whole_objects() {
    let place = Scratch::new("store-killed");
    let store = store(&place);
    let earlier = store.put_bytes(b"here before").expect("puts");
    for (number, delay_ms) in [0, 3, 6, 12, 24, 48].into_iter().enumerate() {
        let file = format!("{number}.bin");
        let data = vec![number as u8; 16 << 20];
        fs::write(place.path.join(&file), data).expect("writes");
        let mut writer = put(&place, &file);
        std::thread::sleep(Duration::from_millis(delay_ms));
        let _ = writer.kill();
        writer.wait().expect("ends");
    }
    let report = store.verify_all(|_, _| ()).expect("walks");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    let all = place.succeeds(&["store", "--store", "objects", "gc", "--older-than", "0"]);
    assert!(all.contains("removed"), "{all}");
    assert_eq!(n_temporaries(&place), 0);
    assert!(!store.contains(&earlier).expect("looks"));
}

/// A limit on the size of files stands in for a full disk: the system refuses the write.
#[cfg(unix)]
#[test]
fn a_refused_write_is_an_error_and_leaves_nothing() {
    let place = Scratch::new("store-full");
    place.write("large.txt", &"x".repeat(1 << 20));
    let script = format!("trap '' XFSZ; ulimit -f 64; '{HLX}' store --store objects put large.txt");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&place.path)
        .output()
        .expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.starts_with("error: large.txt: write to the store: "));
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    assert!(store(&place).list().expect("lists").is_empty());
    assert_eq!(n_temporaries(&place), 0);
}
