//! Secrets of variables and files.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::*;

fn trust(set: &[(&str, &str)]) -> Result<Trust> {
    let found = |name: &str| {
        let found = set.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| OsString::from(value))
    };
    Trust::of(found)
}

/// An error, which never has the secret in it.
fn refused(set: &[(&str, &str)]) -> String {
    let error = trust(set).expect_err("is refused").to_string();
    assert!(
        !error.contains("tell-nobody") && error.lines().count() == 1,
        "{error}"
    );
    error
}

/// A folder of this test that is removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hlx-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        private::create(&folder).expect("a folder");
        Self(folder)
    }

    fn file(&self, name: &str, mode: u32, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("writes");
        set_mode(&path, mode);
        path.to_str().expect("text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(unix)]
fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

#[cfg(not(unix))]
fn set_mode(_: &std::path::Path, _: u32) {}

#[test]
fn secrets_are_of_16_bytes_at_least_and_never_in_an_error() {
    let short = refused(&[(SECRET, "  tell-nobody   \n")]);
    assert!(
        short.starts_with("HLX_SECRET: 11 bytes, expected 16 to 4096: "),
        "{short}"
    );
    assert!(refused(&[(SECRET, &"tell-nobody".repeat(400))]).contains("4400 bytes"));
    let secret = |text: &str| match trust(&[(SECRET, text)]) {
        Ok(Trust::Secret(secret)) => secret,
        other => panic!("{other:?}"),
    };
    let one = secret("0123456789abcdef");
    assert!(one == secret("0123456789abcdef\n") && one != secret("0123456789abcdeF"));
    assert!(one.of_run("a") != one.of_run("b") && one.of_run("") != one);
    assert_eq!(format!("{one:?}"), "Secret(..)");
    assert_eq!(Secret::from_text(&one.to_text()), Some(one.clone()));
    for wrong in [
        "",
        "0",
        &one.to_text()[1..],
        &format!("{}00", one.to_text()),
        &"é".repeat(32),
    ] {
        assert_eq!(Secret::from_text(wrong), None, "{wrong}");
    }
}

#[test]
fn variables_that_contradict_each_other_are_refused() {
    let both = refused(&[(SECRET, "tell-nobody-of-it"), (SECRET_FILE, "there")]);
    assert_eq!(both, "HLX_SECRET and HLX_SECRET_FILE: set only one of them");
    let odd = refused(&[(ALLOW, "yes")]);
    assert_eq!(odd, "HLX_ALLOW_NO_SECRET \"yes\": expected 1 or nothing");
    assert!(matches!(trust(&[(ALLOW, "1")]), Ok(Trust::Everybody(_))));
    assert!(matches!(
        trust(&[(SECRET, ""), (ALLOW, "")]),
        Ok(Trust::ThisHost)
    ));
}

#[test]
fn a_file_of_a_secret_that_others_can_read_is_refused() {
    let scratch = Scratch::new("secret-files");
    let text = b"tell-nobody-0123456789\n";
    let private = scratch.file("private", 0o600, text);
    let Ok(Trust::Secret(secret)) = trust(&[(SECRET_FILE, &private)]) else {
        panic!("is refused");
    };
    assert!(secret == Secret::of_bytes(text.trim_ascii()));
    #[cfg(unix)]
    for mode in [0o640, 0o604, 0o620, 0o602, 0o666] {
        let open = scratch.file("open", mode, text);
        let error = refused(&[(SECRET_FILE, &open)]);
        assert!(
            error.ends_with(": other users can read it: `chmod 600` it"),
            "{error}"
        );
    }
    let long = scratch.file("long", 0o600, &[b'x'; 5000]);
    assert!(refused(&[(SECRET_FILE, &long)]).ends_with("more than 4096 bytes"));
    let missing = refused(&[(SECRET_FILE, "/nowhere/a\nb")]);
    assert!(
        missing.starts_with("HLX_SECRET_FILE \"/nowhere/a\\nb\": "),
        "{missing}"
    );
    refused(&[(SECRET_FILE, scratch.0.to_str().expect("text"))]);
}

/// A pipe without a writer was waited for for ever.
#[test]
#[cfg(unix)]
fn a_pipe_and_a_device_are_no_files_of_a_secret() {
    let scratch = Scratch::new("secret-pipe");
    let pipe = scratch.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    for path in [pipe.to_str().expect("text"), "/dev/zero"] {
        assert!(refused(&[(SECRET_FILE, path)]).ends_with("is no file"));
    }
}

/// Ranks that start at the same time have one secret, which nobody else can read.
#[test]
fn the_secret_of_a_user_is_made_once() {
    let scratch = Scratch::new("secret-user");
    let folder = scratch.0.join("user");
    let all: Vec<Secret> = std::thread::scope(|scope| {
        let start = || scope.spawn(|| file::in_folder(&folder).expect("a secret"));
        let threads = [(); 8].map(|()| start());
        threads
            .into_iter()
            .map(|one| one.join().expect("ends"))
            .collect()
    });
    assert!(all.iter().all(|one| *one == all[0]));
    assert_eq!(fs::read_dir(&folder).expect("reads").count(), 1);
    let found = fs::metadata(folder.join("secret")).expect("is there");
    assert!(!private::is_open(&found) && private::check(&folder).is_ok());
    fs::write(folder.join("secret"), "half").expect("writes");
    assert!(file::in_folder(&folder).is_err());
}

/// Whoever made the folder first, or a link of its name, was given the secret.
#[test]
#[cfg(unix)]
fn folders_that_others_can_open_and_links_are_refused() {
    let scratch = Scratch::new("secret-folders");
    let (open, link) = (scratch.0.join("open"), scratch.0.join("link"));
    fs::create_dir(&open).expect("made");
    set_mode(&open, 0o755);
    assert_eq!(
        file::in_folder(&open).expect_err("is refused"),
        "other users can open it"
    );
    set_mode(&open, 0o700);
    std::os::unix::fs::symlink(&open, &link).expect("a link");
    let error = file::in_folder(&link).expect_err("is refused");
    assert!(error.starts_with("is no folder"), "{error}");
    assert!(fs::read_dir(&open).expect("reads").next().is_none());
    if private::user() == 0 {
        std::os::unix::fs::chown(&open, Some(12_345), None).expect("root may");
        assert_eq!(
            file::in_folder(&open).expect_err("is refused"),
            "belongs to another user"
        );
    }
}
