//! Tests of files: what is replaced, what is written straight, and what a kill leaves of a set.

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::set::PENDING;
use super::*;

/// A folder that is removed with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hlx-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder").flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_is_replaced_whole_and_temporaries_go() -> Result<()> {
    let folder = Folder::new("whole");
    let path = folder.join("a.bin");
    write_atomically(&path, b"old")?;
    write_atomically(&path, b"new")?;
    assert_eq!(fs::read(&path)?, b"new");
    assert!(
        write_and_sync(&path, b"again").is_err(),
        "an existing file stays"
    );
    let left = temporary_beside(&path);
    assert!(is_temporary(&left) && left != temporary_beside(&path));
    fs::write(&left, b"half")?;
    fs::create_dir(folder.join(".step-1.77-0.tmp"))?;
    remove_temporaries(&folder.0, Duration::from_secs(3600))?;
    assert!(left.exists(), "another process may be writing it");
    remove_temporaries(&folder.0, Duration::ZERO)?;
    assert_eq!(folder.names(), ["a.bin"]);
    let missing = folder.join("no/file");
    assert!(write_atomically(&missing, b"x").is_err());
    write_with_folder(&missing, b"x")?;
    assert_eq!(fs::read(&missing)?, b"x");
    let long = folder.join(&"ä".repeat(120));
    write_atomically(&long, b"x")?;
    assert_eq!(fs::read(&long)?, b"x");
    Ok(())
}

#[test]
fn only_names_that_hlx_makes_are_taken_for_temporaries() {
    for name in [
        ".notes.tmp",
        "a.1-2.tmp",
        ".a.1-2",
        ".a.1.tmp",
        ".a.-1.tmp",
        ".a.x-1.tmp",
    ] {
        assert!(!is_temporary(Path::new(name)), "{name}");
    }
    assert!(is_temporary(Path::new("b/.a.txt.12-0.tmp")));
}

#[test]
fn a_leftover_of_a_process_with_the_same_number_is_passed_over() -> Result<()> {
    let folder = Folder::new("leftover");
    let path = folder.join("a.bin");
    // The names that come next; other tests of this process use some of them up.
    let next = temporary_beside(&path).display().to_string();
    let (stem, number) = next
        .trim_end_matches(".tmp")
        .rsplit_once('-')
        .expect("a number");
    let number: u64 = number.parse().expect("a number");
    for number in number..number + 40 {
        fs::write(format!("{stem}-{number}.tmp"), b"half")?;
    }
    write_atomically(&path, b"whole")?;
    assert_eq!(fs::read(&path)?, b"whole");
    write_folder_atomically(&folder.join("b"), &[("c", b"whole")])
}

#[test]
fn a_bare_name_lies_in_the_current_folder() {
    assert_eq!(parent(Path::new("a")), Path::new("."));
    assert_eq!(parent(Path::new("a/b")), Path::new("a"));
}

#[test]
fn an_input_is_known_under_every_name() -> Result<()> {
    let folder = Folder::new("identity");
    let input = folder.join("in.txt");
    fs::write(&input, b"input")?;
    fs::hard_link(&input, folder.join("hard.txt"))?;
    fs::create_dir(folder.join("below"))?;
    let mut names = vec!["in.txt", "hard.txt", "below/../in.txt"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("in.txt", folder.join("soft.txt"))?;
        std::os::unix::fs::symlink(&folder.0, folder.join("below/up"))?;
        names.extend(["soft.txt", "below/up/in.txt"]);
    }
    for name in names {
        let output = Output::at(&folder.join(name))?;
        let error = output.apart_from(std::slice::from_ref(&input));
        assert_eq!(
            error.expect_err(name).to_string(),
            "is the file that is read"
        );
    }
    let other = Output::at(&folder.join("out.txt"))?.apart_from(&[input])?;
    assert!(other.is_same(&Output::at(&folder.join("below/../out.txt"))?));
    assert!(other.lies_in(&folder.0) && !other.lies_in(&folder.join("below")));
    other.write(b"output")?;
    assert_eq!(fs::read(folder.join("in.txt"))?, b"input");
    assert!(Output::at(&folder.join("below")).is_err(), "a folder");
    assert!(Output::at(&folder.join("no/out.txt")).is_err(), "no folder");
    Ok(())
}

#[cfg(unix)]
#[test]
fn links_stay_and_what_they_name_is_replaced() -> Result<()> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("links");
    fs::create_dir(folder.join("far"))?;
    fs::write(folder.join("far/file"), b"old")?;
    fs::set_permissions(folder.join("far/file"), fs::Permissions::from_mode(0o640))?;
    symlink("far/second", folder.join("first"))?;
    symlink("file", folder.join("far/second"))?;
    symlink("far/new", folder.join("dangling"))?;
    symlink("round", folder.join("round"))?;
    for (link, file) in [("first", "far/file"), ("dangling", "far/new")] {
        write_atomically(&folder.join(link), b"written")?;
        assert!(folder.join(link).is_symlink(), "{link}");
        assert_eq!(fs::read(folder.join(file))?, b"written");
    }
    assert!(folder.join("far/second").is_symlink());
    let mode = fs::metadata(folder.join("far/file"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "a file keeps its permissions");
    assert!(write_atomically(&folder.join("round"), b"x").is_err());
    assert_eq!(folder.names(), ["dangling", "far", "first", "round"]);

    symlink("far/set", folder.join("set"))?;
    write_set(&folder.join("set"), &[("a", b"1"), ("b", b"2")], &[])?;
    assert!(folder.join("set").is_symlink());
    assert_eq!(fs::read(folder.join("far/set/b"))?, b"2");
    fs::rename(folder.join("far/set/b"), folder.join("far/elsewhere"))?;
    symlink("../elsewhere", folder.join("far/set/b"))?;
    write_set(&folder.join("set"), &[("a", b"3"), ("b", b"4")], &[])?;
    assert!(folder.join("far/set/b").is_symlink());
    assert_eq!(fs::read(folder.join("far/elsewhere"))?, b"4");
    Ok(())
}

#[cfg(unix)]
#[test]
fn devices_and_pipes_are_written_straight() -> Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let folder = Folder::new("straight");
    // Root makes a device of its own, so that a fault replaces that one.
    let own = folder.join("null");
    let mut mknod = std::process::Command::new("mknod");
    let made = mknod.arg(&own).args(["c", "1", "3"]).output()?;
    let has_own = made.status.success() && fs::write(&own, b"x").is_ok();
    let device = match has_own {
        true => own.as_path(),
        false => Path::new("/dev/null"),
    };
    write_atomically(device, b"gone")?;
    assert!(fs::metadata(device)?.file_type().is_char_device());
    let _ = fs::remove_file(&own);
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    assert!(made.success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe)
    });
    let output = Output::at(&pipe)?;
    output.write_with(|file| {
        file.write_all(b"piece ")?;
        file.write_all(b"by piece")
    })?;
    let read = reader.join().expect("the reader ends")?;
    assert_eq!(read, b"piece by piece");
    assert_eq!(folder.names(), ["pipe"]);
    let error = write_set(&folder.0, &[("pipe", b"x")], &[]).expect_err("no file");
    assert_eq!(error.to_string(), "pipe: is no regular file");
    Ok(())
}

const OLD: [(&str, &[u8]); 3] = [("weights", b"old"), ("template", b"old"), ("sizes", b"old")];
const NEW: [(&str, &[u8]); 3] = [("weights", b"new"), ("words", b"new"), ("sizes", b"new")];
const NAMES: [&str; 4] = ["weights", "template", "words", "sizes"];

/// What a reader finds of each name.
fn read_all(folder: &Folder) -> Vec<Option<Vec<u8>>> {
    let read = |name: &&str| fs::read(place(&folder.0, name)).ok();
    NAMES.iter().map(read).collect()
}

/// Stops [`write_set`] after each of its changes, as a kill would.
#[test]
fn a_kill_leaves_the_old_set_or_the_new_one() -> Result<()> {
    let folder = Folder::new("set");
    let old = || Some(b"old".to_vec());
    let new = || Some(b"new".to_vec());
    let changes: [(&str, Option<&str>); 6] = [
        ("sizes", None),
        ("template", None),
        ("pending/weights", Some("weights")),
        ("pending/words", Some("words")),
        ("pending/sizes", Some("sizes")),
        ("pending/set.json", None),
    ];
    for stop in 0..=changes.len() {
        fs::remove_dir_all(&folder.0)?;
        write_set(&folder.0, &OLD, &NAMES)?;
        assert_eq!(read_all(&folder), [old(), old(), None, old()]);
        fs::create_dir(folder.join(".pending.7-0.tmp"))?;
        fs::write(folder.join(".pending.7-0.tmp/weights"), b"ne")?;
        assert_eq!(read_all(&folder), [old(), old(), None, old()], "staging");
        let list = br#"{"files": ["weights", "words", "sizes"], "removed": ["template"]}"#;
        let staged = [&NEW[..], &[("set.json", &list[..])]].concat();
        write_folder_atomically(&folder.join(PENDING), &staged)?;
        for (from, to) in &changes[..stop] {
            match to {
                Some(to) => fs::rename(folder.join(from), folder.join(to))?,
                None => fs::remove_file(folder.join(from))?,
            }
        }
        assert_eq!(
            read_all(&folder),
            [new(), None, new(), new()],
            "stop {stop}"
        );
        let is_read_by_others = folder.join("sizes").exists();
        assert_eq!(is_read_by_others, stop == 0 || stop >= 5, "stop {stop}");
        write_set(&folder.0, &OLD, &NAMES)?;
        assert_eq!(
            read_all(&folder),
            [old(), old(), None, old()],
            "stop {stop}"
        );
        assert_eq!(folder.names(), ["sizes", "template", "weights"]);
    }
    Ok(())
}

#[test]
fn a_pending_list_of_a_strangers_folder_touches_nothing_outside_of_it() -> Result<()> {
    let outer = Folder::new("set-outside");
    let folder = outer.join("model");
    for name in ["../precious", "a/../../precious", "/tmp/precious", "..", ""] {
        write_set(&folder, &OLD, &NAMES)?;
        fs::write(outer.join("precious"), b"a user's")?;
        fs::create_dir(folder.join(PENDING))?;
        let list = format!("{{\"files\": [\"weights\"], \"removed\": [\"{name}\"]}}");
        fs::write(folder.join(PENDING).join("set.json"), list)?;
        fs::write(folder.join(PENDING).join("weights"), b"a stranger's")?;
        assert!(write_set(&folder, &NEW, &NAMES).is_err(), "{name}");
        assert_eq!(fs::read(place(&folder, "weights"))?, b"old", "{name}");
        assert_eq!(fs::read(outer.join("precious"))?, b"a user's", "{name}");
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

#[test]
fn a_set_that_is_refused_changes_nothing() -> Result<()> {
    let folder = Folder::new("set-refused");
    write_set(&folder.0, &OLD, &NAMES)?;
    fs::create_dir(folder.join("words"))?;
    assert!(
        write_set(&folder.0, &NEW, &NAMES).is_err(),
        "a folder's name"
    );
    fs::remove_dir(folder.join("words"))?;
    fs::create_dir(folder.join(PENDING))?;
    fs::write(folder.join("pending/weights"), b"a user's")?;
    assert!(
        write_set(&folder.0, &NEW, &NAMES).is_err(),
        "a user's folder"
    );
    assert_eq!(fs::read(place(&folder.0, "weights"))?, b"old");
    assert_eq!(fs::read(folder.join("pending/weights"))?, b"a user's");
    fs::remove_dir_all(folder.join(PENDING))?;
    if cfg!(unix) {
        let held = fs::File::open(&folder.0)?;
        held.try_lock().expect("free");
        let error = write_set(&folder.0, &NEW, &NAMES).expect_err("held");
        assert_eq!(error.to_string(), "is being written by another process");
    }
    assert_eq!(folder.names(), ["sizes", "template", "weights"]);
    Ok(())
}

#[test]
fn only_an_empty_folder_or_one_with_the_mark_is_free() -> Result<()> {
    let folder = Folder::new("mark");
    let check = |is_older: bool| check_free(&folder.0, "hlx import", |_| is_older);
    check(false)?;
    fs::write(folder.join(".pending.7-0.tmp"), b"left by a kill")?;
    check(false)?;
    check_free(&folder.join("new"), "hlx import", |_| false)?;
    fs::write(folder.join("notes"), b"a user's")?;
    let line = |verb: &str| {
        let refused = check_free(&folder.0, verb, |_| false);
        refused.expect_err("refused").to_string()
    };
    let foreign = "holds files that `hlx import` has not made; name an empty or a new folder";
    assert_eq!(line("hlx import"), foreign);
    check(true)?;
    fs::write(folder.join(MARK_FILE), mark("hlx import")?)?;
    check(false)?;
    let other = "was made by `hlx import`; name an empty or a new folder";
    assert_eq!(line("hlx export"), other);
    let file = check_free(&folder.join("notes"), "hlx import", |_| true);
    assert_eq!(file.expect_err("a file").to_string(), "is no folder");
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_pipe_a_device_and_a_folder_are_no_files() {
    let folder = Folder::new("no-files");
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let fails = |path: &Path| {
        let errors = [
            look(path).err(),
            open(path).err(),
            read(path).err(),
            read_settings_text(path).err(),
            Source::open(path).err(),
        ];
        let lines = errors.map(|error| error.expect("refused").to_string());
        assert!(lines.iter().all(|line| *line == lines[0]), "{lines:?}");
        lines[0].clone()
    };
    assert_eq!(fails(&pipe), "is a named pipe, expected a regular file");
    let zero = Path::new("/dev/zero");
    assert_eq!(fails(zero), "is a device, expected a regular file");
    assert_eq!(fails(&folder.0), "is a folder");
    // By a link, too.
    std::os::unix::fs::symlink(zero, folder.join("link")).expect("a link");
    let line = fails(&folder.join("link"));
    assert_eq!(line, "is a device, expected a regular file");
}

#[test]
fn a_sparse_file_of_more_than_its_kind_holds_is_refused_unread() {
    let folder = Folder::new("sparse");
    let path = folder.join("config.json");
    let file = fs::File::create(&path).expect("made");
    file.set_len(MAX_SETTINGS + 1).expect("sparse");
    let line = read_settings(&path).expect_err("too long").to_string();
    let expected = format!(
        "has {} bytes; at most {MAX_SETTINGS} are read",
        MAX_SETTINGS + 1
    );
    assert_eq!(line, expected);
    // More than the machine has: no state, chain or corpus of pairs either.
    file.set_len(1 << 42).expect("sparse");
    assert!(read(&path).is_err());
    assert_eq!(read_at_most(&path, 4).err().map(|_| ()), Some(()));
    file.set_len(4).expect("cut");
    assert_eq!(read_at_most(&path, 4).expect("read"), [0; 4]);
}

#[test]
fn a_file_cut_short_while_it_is_in_use_is_an_error() {
    let folder = Folder::new("cut-short");
    let path = folder.join("corpus.txt");
    fs::write(&path, vec![7; 3 << 20]).expect("written");
    let source = Source::open(&path).expect("opens");
    assert_eq!((source.len(), source.memory()), (3 << 20, None));
    assert_eq!(source.read(5..9).expect("read"), [7; 4]);
    let whole = crate::digest::sha256_hex(&vec![7; 3 << 20]);
    assert_eq!(source.sha256_hex().expect("hashed"), whole);
    assert!(source.read(5..(3 << 20) + 1).is_err());
    // Longer than the file.
    assert!(source.read(0..(3 << 20) + 1).is_err());
    assert!(source.read(0..u64::MAX).is_err());
    assert!(source.read(u64::MAX - 1..u64::MAX).is_err());
    let file = fs::OpenOptions::new().write(true).open(&path);
    file.expect("opens").set_len(100).expect("cut");
    assert_eq!(source.read(5..9).expect("still there"), [7; 4]);
    let expected = "was cut short while it was in use: it had 3145728 bytes, now 100";
    let read = source.read(98..102).expect_err("behind the end");
    assert_eq!(read.to_string(), expected);
    let hashed = source.sha256_hex().expect_err("behind the end");
    assert_eq!(hashed.to_string(), expected);
}

#[test]
fn files_behind_the_limit_of_open_ones_are_opened_for_each_read() {
    let folder = Folder::new("many-open");
    let sources: Vec<Source> = (0..600)
        .map(|number| {
            let path = folder.join(&number.to_string());
            fs::write(&path, [number as u8, 1]).expect("written");
            Source::open(&path).expect("opens")
        })
        .collect();
    for (number, source) in sources.iter().enumerate() {
        assert_eq!(source.read(0..2).expect("read"), [number as u8, 1]);
    }
    // The last is opened anew, and must be the file that was there.
    fs::write(folder.join("599"), [1, 2, 3]).expect("written");
    let changed = sources[599].read(0..2).expect_err("changed");
    assert_eq!(changed.to_string(), "was changed while it was in use");
}

#[test]
fn a_pointer_of_git_lfs_is_no_file_of_settings() -> Result<()> {
    let folder = Folder::new("pointer");
    let path = folder.join("config.json");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    fs::write(&path, pointer)?;
    for error in [
        read_settings(&path).expect_err("a pointer"),
        read_json(&path).expect_err("a pointer"),
        read_settings_text(&path).expect_err("a pointer"),
    ] {
        assert_eq!(error.to_string(), IS_LFS_POINTER);
    }
    assert!(is_lfs_pointer(pointer.as_bytes()));
    assert!(!is_lfs_pointer(b"version https://") && !is_lfs_pointer(b"{}") && !is_lfs_pointer(b""));
    Ok(())
}

#[test]
fn a_byte_order_mark_before_json_is_left_out() -> Result<()> {
    let folder = Folder::new("mark");
    let path = folder.join("config.json");
    for (written, expected) in [
        (&b"\xef\xbb\xbf{}"[..], &b"{}"[..]),
        (b"{}", b"{}"),
        (b"\xef\xbb\xbf", b""),
        (b"\xef\xbb{}", b"\xef\xbb{}"),
    ] {
        fs::write(&path, written)?;
        assert_eq!(read_json(&path)?, expected);
        assert_eq!(read_settings(&path)?, written);
    }
    Ok(())
}

/// A pointer of git-lfs in the place of data was trained on as a text, or refused for its format.
#[test]
fn a_pointer_of_git_lfs_is_no_file_of_data() -> Result<()> {
    let folder = Folder::new("data-pointer");
    let path = folder.join("train.bin");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    fs::write(&path, pointer)?;
    assert_eq!(
        read(&path).expect_err("a pointer").to_string(),
        IS_LFS_POINTER
    );
    let error = Source::open(&path).expect_err("a pointer");
    assert_eq!(error.to_string(), IS_LFS_POINTER);
    fs::write(&path, format!("{pointer}{}", "a".repeat(2000)))?;
    assert_eq!(Source::open(&path)?.len(), 2000 + pointer.len() as u64);
    Ok(())
}

#[test]
fn a_byte_order_mark_before_a_text_is_left_out_and_utf_16_is_named() -> Result<()> {
    let folder = Folder::new("text-mark");
    let path = folder.join("config.toml");
    fs::write(&path, "\u{feff}seed = 1\u{feff}")?;
    assert_eq!(read_settings_text(&path)?, "seed = 1\u{feff}");
    for bytes in [&b"\xff\xfes\0"[..], b"\xfe\xff\0s"] {
        fs::write(&path, bytes)?;
        let error = read_settings_text(&path).expect_err("not UTF-8");
        assert_eq!(error.to_string(), "is UTF-16, expected UTF-8");
    }
    Ok(())
}
