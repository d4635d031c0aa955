//! The store under good and bad use: deduplication, damage, crashes, writers side by side.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::folder::default_folder;
use super::*;

/// A store in a folder of its own, removed when the test ends.
struct Scratch {
    path: PathBuf,
    store: Store,
}

impl Scratch {
    fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unique = format!("hlx-store-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        let _ = fs::remove_dir_all(&path);
        let store = Store::open(&path).expect("opens");
        Self { path, store }
    }

    fn n_temporaries(&self) -> usize {
        fs::read_dir(self.path.join("tmp")).expect("reads").count()
    }

    /// Makes a file look as if it had been written two hours ago.
    fn make_old(path: &Path) {
        let file = File::options().write(true).open(path).expect("opens");
        let then = SystemTime::now() - 2 * GC_MIN_AGE;
        file.set_modified(then).expect("sets the time");
    }

    fn put_old(&self, data: &[u8]) -> Handle {
        let handle = self.store.put_bytes(data).expect("puts");
        Self::make_old(&self.store.object_path(&handle));
        handle
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[test]
fn bytes_and_tensors_come_back_under_handles_of_their_own() {
    let place = Scratch::new("round-trip");
    let store = &place.store;
    let data: Vec<u8> = (0..24).collect();
    let tensor = |dtype, shape: &[usize]| store.put_tensor(dtype, shape, &data).expect("puts");
    let handles = [
        store.put_bytes(&data).expect("puts"),
        tensor(Dtype::F32, &[2, 3]),
        tensor(Dtype::F32, &[3, 2]),
        tensor(Dtype::F32, &[6]),
        tensor(Dtype::U32, &[2, 3]),
        tensor(Dtype::Bf16, &[2, 3, 2]),
        store.put_bytes(&[]).expect("puts"),
        store.put_tensor(Dtype::F64, &[0, 9], &[]).expect("puts"),
        store.put_tensor(Dtype::U8, &[], &[7]).expect("puts"),
    ];
    let listed = store.list().expect("lists");
    assert_eq!(listed.len(), handles.len());
    assert!(listed.is_sorted_by_key(|entry| entry.handle));
    assert_eq!(store.get_bytes(&handles[0]).expect("gets"), data);
    let back = store.get_tensor(&handles[5]).expect("gets");
    assert_eq!((back.dtype, back.shape), (Dtype::Bf16, vec![2, 3, 2]));
    assert_eq!(back.data, data);
    assert_eq!(handles[0], Handle::of_bytes(&data));
    let apart = Handle::of_tensor(Dtype::F32, &[2, 3], &data).expect("fits");
    assert_eq!(handles[1], apart);
    assert_eq!(tensor(Dtype::F32, &[2, 3]), handles[1]);
    assert_eq!(store.list().expect("lists").len(), handles.len());
    assert_eq!(place.n_temporaries(), 0);
}

/// The layout of version 1 for ever: with `sha256sum FILE` anyone can check an object's name.
#[test]
fn handles_are_the_sha256_of_the_file() {
    let place = Scratch::new("layout");
    let store = &place.store;
    let handle = store.put_tensor(Dtype::F32, &[1], &1.5_f32.to_le_bytes());
    let handle = handle.expect("puts");
    let file = fs::read(store.object_path(&handle)).expect("reads");
    let header = b"HLXOBJ1\n\x01\x0a\x01\0\0\0\0\0\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0";
    assert_eq!(file, [&header[..], &1.5_f32.to_le_bytes()].concat());
    assert_eq!(hlx_core::digest::sha256_hex(&file), handle.hex());
    assert_eq!(
        Handle::of_bytes(b"abc").to_string(),
        "sha256:b1cca0b767a94feab81aeffd85052afc9de84acbee75b9123dcc6e2c11199544"
    );
}

#[test]
fn handles_parse_or_say_what_is_wrong() {
    let handle = Handle::of_bytes(b"x");
    let text = handle.to_string();
    assert_eq!(text.parse::<Handle>().expect("parses"), handle);
    let json = serde_json::to_string(&handle).expect("encodes");
    assert_eq!(json, format!("\"{text}\""));
    let back: Handle = serde_json::from_str(&json).expect("decodes");
    assert_eq!(back, handle);
    for (bad, reason) in [
        (handle.hex(), "expected `sha256:` and 64"),
        (text[..70].to_owned(), "has 63 digits, expected 64"),
        (format!("{text}0"), "has 65 digits"),
        (text.to_uppercase(), "expected `sha256:`"),
        (format!("sha256:{}", "G".repeat(64)), "digits 0-9 and a-f"),
        (format!("sha256:{}", "é".repeat(32)), "has 32 digits"),
        (format!("sha256:{}", "é".repeat(64)), "digits 0-9 and a-f"),
        (String::new(), "expected `sha256:`"),
    ] {
        let error = bad.parse::<Handle>().expect_err("must fail").to_string();
        assert!(error.contains(reason), "{bad}: {error}");
        let quoted = serde_json::to_string(&bad).expect("encodes");
        assert!(serde_json::from_str::<Handle>(&quoted).is_err());
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let place = Scratch::new("shapes");
    let put = |dtype, shape: &[usize], n: usize| {
        let result = place.store.put_tensor(dtype, shape, &vec![0; n]);
        result.expect_err("must fail").to_string()
    };
    let error = put(Dtype::F32, &[2, 2], 15);
    assert_eq!(error, "a tensor of f32 [2, 2]: has 15 bytes, expected 16");
    for shape in [&[usize::MAX, 2][..], &[1 << 32, 1 << 32], &[0, 1 << 63, 2]] {
        let text = put(Dtype::F64, shape, 0);
        assert!(
            text.ends_with("has more elements than any memory holds"),
            "{text}"
        );
    }
    assert!(put(Dtype::U8, &[1; 17], 1).contains("rank 17, expected 16"));
    let error = "f33".parse::<Dtype>().expect_err("must fail").to_string();
    assert!(error.contains("dtype `f33` is unknown: expected one of bool, u8"));
    for name in [
        "bool", "i8", "u16", "i16", "f16", "bf16", "i32", "u64", "i64", "f64",
    ] {
        assert_eq!(name.parse::<Dtype>().expect("parses").name(), name);
    }
    assert!(place.store.list().expect("lists").is_empty());
}

#[test]
fn any_flipped_bit_and_any_cut_is_found() {
    let place = Scratch::new("damage");
    let store = &place.store;
    let handle = store.put_tensor(Dtype::U8, &[2, 2], &[1, 2, 3, 4]);
    let handle = handle.expect("puts");
    let path = store.object_path(&handle);
    let whole = fs::read(&path).expect("reads");
    let fails = |what: &str| {
        let error = store.verify(&handle).expect_err(what).to_string();
        assert!(error.contains(&handle.to_string()), "{what}: {error}");
        assert!(
            error.contains(&path.display().to_string()),
            "{what}: {error}"
        );
        for error in [
            store.get_tensor(&handle).map(drop).expect_err(what),
            store.get_bytes(&handle).map(drop).expect_err(what),
        ] {
            assert!(
                matches!(error, StoreError::Damaged { .. }),
                "{what}: {error}"
            );
        }
        let report = store.verify_all(|_, _| ()).expect("walks");
        assert_eq!((report.n_objects, report.faults.len()), (1, 1));
    };
    for bit in 0..8 * whole.len() {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, flipped).expect("writes");
        fails(&format!("bit {bit}"));
    }
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).expect("writes");
        fails(&format!("cut at {cut}"));
    }
    // The same content, put once more, heals the object.
    store
        .put_tensor(Dtype::U8, &[2, 2], &[1, 2, 3, 4])
        .expect("puts");
    assert_eq!(fs::read(&path).expect("reads"), whole);
    assert!(store.verify(&handle).is_ok());
}

#[test]
fn wrong_kinds_and_unknown_handles_are_named() {
    let place = Scratch::new("kinds");
    let store = &place.store;
    let bytes = store.put_bytes(&[1, 2]).expect("puts");
    let tensor = store.put_tensor(Dtype::U8, &[2], &[1, 2]).expect("puts");
    let error = store.get_tensor(&bytes).expect_err("must fail").to_string();
    assert_eq!(error, format!("{bytes} holds bytes, expected a tensor"));
    let error = store.get_bytes(&tensor).expect_err("must fail").to_string();
    let expected = format!("{tensor} holds a tensor of u8 [2], expected bytes");
    assert_eq!(error, expected);
    let other = Handle::of_bytes(b"never put");
    assert!(!store.contains(&other).expect("looks"));
    let store_path = place.path.display();
    for error in [
        store.get_bytes(&other).expect_err("must fail"),
        store.verify(&other).map(drop).expect_err("must fail"),
        store.pin("x", &other).expect_err("must fail"),
    ] {
        let expected = format!("{other} is not in the store {store_path}");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn collection_spares_roots_pins_and_the_young() {
    let place = Scratch::new("gc");
    let store = &place.store;
    let [root, pinned, lost, again] = [b"r", b"p", b"l", b"a"].map(|data| place.put_old(data));
    let young = store.put_bytes(b"young").expect("puts");
    store.put_bytes(b"a").expect("puts the same once more");
    store.pin("model-1.best", &pinned).expect("pins");
    store.pin("moved", &lost).expect("pins");
    store.pin("moved", &pinned).expect("pins");
    let leftover = place.path.join("tmp/999999-0");
    fs::write(&leftover, b"half").expect("writes");
    let fresh = place.path.join("tmp/999999-1");
    fs::write(&fresh, b"half").expect("writes");
    Scratch::make_old(&leftover);
    let rehearsal = GcOptions {
        dry_run: true,
        ..GcOptions::default()
    };
    let expected = store.gc_with(&[root], rehearsal).expect("collects");
    assert!(store.contains(&lost).expect("looks") && leftover.exists());
    let report = store.gc(&[root]).expect("collects");
    assert_eq!(report, expected);
    assert_eq!(report.removed, [lost]);
    assert_eq!(
        (report.n_held, report.n_young, report.n_temporaries),
        (2, 2, 1)
    );
    assert_eq!(report.freed_bytes, 24 + 1 + 4);
    assert!(!leftover.exists() && fresh.exists());
    for handle in [root, pinned, again, young] {
        assert!(store.verify(&handle).is_ok());
    }
    store.unpin("moved").expect("unpins");
    store.unpin("model-1.best").expect("unpins");
    assert_eq!(store.gc(&[]).expect("collects").removed.len(), 2);
    let error = store.unpin("moved").expect_err("must fail").to_string();
    assert!(error.starts_with("no pin `moved`"), "{error}");
}

#[test]
fn a_pin_that_cannot_be_read_stops_collection() {
    let place = Scratch::new("bad-pin");
    let handle = place.put_old(b"kept");
    place.store.pin("good", &handle).expect("pins");
    fs::write(place.path.join("pins/good"), "sha256:12").expect("writes");
    let error = place.store.gc(&[]).expect_err("must fail").to_string();
    assert!(error.contains("good is no pin"), "{error}");
    assert!(place.store.contains(&handle).expect("looks"));
    for name in ["", ".hidden", "a/b", "..", "a b", &"n".repeat(129)] {
        let error = place.store.pin(name, &handle).expect_err("must fail");
        assert!(matches!(error, StoreError::BadPinName { .. }), "{error}");
    }
}

/// Fails after some bytes, as a disk or a network would.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the cable is out"));
        }
        let n = buffer.len().min(self.0);
        self.0 -= n;
        buffer[..n].fill(1);
        Ok(n)
    }
}

#[test]
fn readers_are_streamed_and_leave_nothing_when_they_fail() {
    let place = Scratch::new("readers");
    let store = &place.store;
    let data = vec![5; 3 * write::PIECE_BYTES + 1];
    let put = |length: usize, reader: &mut dyn Read| {
        store.put_reader(Content::Bytes, length as u64, reader)
    };
    for _ in 0..2 {
        let handle = put(data.len(), &mut data.as_slice()).expect("puts");
        assert_eq!(handle, Handle::of_bytes(&data));
        let mut out = Vec::new();
        store.copy_to(&handle, &mut out).expect("copies");
        assert_eq!(out, data);
    }
    let fails = |length, reader: &mut dyn Read| put(length, reader).expect_err("fails").to_string();
    assert!(fails(10, &mut Broken(5)).contains("the cable is out"));
    assert!(fails(6, &mut [0; 5].as_slice()).contains("ends after 5 of 6 bytes"));
    assert!(fails(4, &mut [0; 5].as_slice()).contains("more than the 4 bytes"));
    assert_eq!(store.list().expect("lists").len(), 1);
    assert_eq!(place.n_temporaries(), 0);
}

#[test]
fn folders_that_cannot_be_made_or_written_are_named() {
    let place = Scratch::new("folders");
    let handle = place.store.put_bytes(b"here").expect("puts");
    let under_a_file = place.store.object_path(&handle).join("store");
    let error = Store::open(&under_a_file)
        .expect_err("must fail")
        .to_string();
    assert!(
        error.contains(&under_a_file.display().to_string()),
        "{error}"
    );
    // What a read-only folder does to everybody but root: the temporary file cannot be made.
    fs::remove_dir(place.path.join("tmp")).expect("removed");
    fs::write(place.path.join("tmp"), b"no folder").expect("writes");
    let error = place.store.put_bytes(b"new").expect_err("must fail");
    let expected = format!("write to the store: {}/tmp", place.path.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(place.store.get_bytes(&handle).expect("gets"), b"here");
    assert_eq!(place.store.list().expect("lists").len(), 1);
}

/// A store took any folder for its own, and collection removed old files of a folder `tmp` in it.
#[test]
fn a_folder_of_others_is_no_store() {
    let place = Scratch::new("foreign");
    let folder = place.path.join("home");
    fs::create_dir_all(folder.join("tmp")).expect("made");
    fs::write(folder.join("tmp/notes"), b"a user's").expect("writes");
    let error = Store::open(&folder).expect_err("must fail").to_string();
    let expected = "home: holds other files, and is no store";
    assert!(error.ends_with(expected), "{error}");
    assert_eq!(fs::read_dir(&folder).expect("reads").count(), 1);
    let empty = place.path.join("empty");
    fs::create_dir(&empty).expect("made");
    Store::open(&empty).expect("opens");
    Store::open(&empty).expect("opens again");
}

#[test]
fn threads_write_the_same_and_collect_beside_each_other() {
    let place = Scratch::new("threads");
    let store = &place.store;
    let eager = GcOptions {
        min_age: Duration::ZERO,
        dry_run: false,
    };
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                for round in 0..20_u8 {
                    let shared = store.put_bytes(&[round; 5000]).expect("puts");
                    let own = store.put_bytes(&[thread, round]).expect("puts");
                    store.verify(&own).or_else(unless_collected).expect("whole");
                    store
                        .get_bytes(&shared)
                        .map(drop)
                        .or_else(|error| unless_collected(error).map(drop))
                        .expect("whole");
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..10 {
                store.gc_with(&[], eager).expect("collects");
            }
        });
    });
    let report = store.verify_all(|_, _| ()).expect("walks");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!(place.n_temporaries(), 0);
}

/// A collection without an age takes what was put a moment ago; damage is never allowed.
fn unless_collected(error: StoreError) -> Result<ObjectInfo, StoreError> {
    match error {
        StoreError::UnknownHandle { handle, .. } => Ok(ObjectInfo {
            handle,
            content: Content::Bytes,
            length: 0,
        }),
        error => Err(error),
    }
}

#[test]
fn the_users_folder_follows_the_variables() {
    let folder = |variables: &[(&str, &str)]| {
        let variables: Vec<(String, OsString)> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
            .collect();
        default_folder(|name| {
            let found = variables.iter().find(|(variable, _)| variable == name);
            found.map(|(_, value)| value.clone())
        })
    };
    let path = folder(&[("HLX_STORE", "here"), ("HOME", "/home/a")]).expect("found");
    assert_eq!(path, Path::new("here"));
    let error = folder(&[]).expect_err("must fail").to_string();
    assert!(error.starts_with("no folder for the store: set HLX_STORE, or"));
    if cfg!(target_os = "linux") {
        let home = folder(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "relative")]);
        assert_eq!(
            home.expect("found"),
            Path::new("/home/a/.local/share/hlx/store")
        );
        let data = folder(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")]);
        assert_eq!(data.expect("found"), Path::new("/data/hlx/store"));
    }
}

#[test]
fn buffers_of_every_device_share_a_handle() {
    let place = Scratch::new("buffers");
    let store = &place.store;
    let values = [
        1.5,
        -0.0,
        f32::from_bits(0x7fc0_1234),
        f32::INFINITY,
        0.25,
        3.0,
    ];
    for device in hlx_core::testing::own_devices() {
        let buffer = device.buffer_of(&values).expect("uploads");
        let handle = store
            .put_buffer_f32(&device, &[2, 3], &buffer)
            .expect("puts");
        let mut plain = values;
        plain[2] = f32::from_bits(hlx_core::digest::CANONICAL_NAN);
        let bytes: Vec<u8> = plain.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(
            handle,
            Handle::of_tensor(Dtype::F32, &[2, 3], &bytes).expect("fits")
        );
        let (back, shape) = store.get_buffer_f32(&device, &handle).expect("gets");
        assert_eq!(shape, [2, 3]);
        let words: Vec<u32> = plain.map(f32::to_bits).to_vec();
        assert_eq!(device.download_words(&back).expect("downloads"), words);
        let error = store
            .get_buffer_u32(&device, &handle)
            .expect_err("must fail");
        assert!(error.to_string().ends_with("expected a tensor of u32"));
        assert!(store.put_buffer_u32(&device, &[7], &buffer).is_err());
    }
    // Larger than two windows of a transfer.
    let device = hlx_core::testing::cpu().expect("opens");
    let words: Vec<u32> = (0..(2 << 22) + 5).collect();
    let buffer = device.buffer_of::<u32>(&words).expect("uploads");
    let handle = store
        .put_buffer_u32(&device, &[words.len()], &buffer)
        .expect("puts");
    let (back, _) = store.get_buffer_u32(&device, &handle).expect("gets");
    assert!(device.download_words(&back).expect("downloads") == words);
}
