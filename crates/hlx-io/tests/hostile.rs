//! Files that are made to harm: sizes that wrap, archives that are larger inside than out, names that hide others.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use hlx_core::Device;
use hlx_core::testing::cpu;
use hlx_io::{from_safetensors, load_npy, load_npz};

/// A file of one test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("hlx-io-hostile-{test}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// What the reader of npz says of these bytes.
    fn npz(&self, device: &Device, bytes: &[u8]) -> String {
        fs::write(&self.0, bytes).expect("writes");
        let read = load_npz(device, &self.0);
        one_line(read.map(|read| read.len()).expect_err("a hostile archive"))
    }

    fn npy(&self, device: &Device, bytes: &[u8]) -> String {
        fs::write(&self.0, bytes).expect("writes");
        one_line(
            load_npy(device, &self.0)
                .map(|x| x.shape().to_vec())
                .expect_err("a hostile file"),
        )
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn one_line(error: impl ToString) -> String {
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// An npy file whose header says this, of any length.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

/// A member of an archive, with what its headers say.
struct Member<'a> {
    name: &'a str,
    flags: u16,
    deflated: bool,
    /// As it lies in the archive.
    data: &'a [u8],
    crc: u32,
    says: u32,
    /// Where its header lies, if not where it is written.
    at: Option<u32>,
}

impl<'a> Member<'a> {
    fn stored(name: &'a str, data: &'a [u8]) -> Self {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        Self {
            name,
            flags: 0,
            deflated: false,
            data,
            crc: crc.sum(),
            says: data.len() as u32,
            at: None,
        }
    }

    /// What both headers of a member have in common.
    fn common(&self) -> Vec<u8> {
        let method = if self.deflated { 8_u16 } else { 0 };
        let mut bytes = [20, self.flags, method, 0, 33]
            .map(u16::to_le_bytes)
            .concat();
        let sizes = [self.crc, self.data.len() as u32, self.says];
        bytes.extend(sizes.map(u32::to_le_bytes).concat());
        bytes.extend([self.name.len() as u16, 0].map(u16::to_le_bytes).concat());
        bytes
    }
}

fn archive(members: &[Member<'_>]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let at = member.at.unwrap_or(bytes.len() as u32);
        if member.at.is_none() {
            bytes.extend(b"PK\x03\x04");
            bytes.extend(member.common());
            bytes.extend(member.name.as_bytes());
            bytes.extend(member.data);
        }
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(member.common());
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(member.name.as_bytes());
    }
    let (n, at) = (members.len() as u16, bytes.len() as u32);
    let size = directory.len() as u32;
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0, 0, n, n].map(u16::to_le_bytes).concat());
    bytes.extend([size, at].map(u32::to_le_bytes).concat());
    bytes.extend([0; 2]);
    bytes
}

#[test]
fn the_archives_of_these_tests_are_archives() {
    let (device, file) = (cpu().expect("opens"), Scratch::new("sound"));
    let one = npy("<f4", "(1,)", &[0; 4]);
    fs::write(
        &file.0,
        archive(&[Member::stored("a.npy", &one), Member::stored("b.npy", &one)]),
    )
    .expect("writes");
    let read = load_npz(&device, &file.0).expect("reads");
    assert_eq!(read.keys().collect::<Vec<_>>(), ["a", "b"]);
}

/// The data continue for 16 MiB and are then no deflated data at all: who inflates them to the end says so.
#[test]
fn a_member_is_inflated_no_further_than_its_array_reaches() {
    let (device, file) = (cpu().expect("opens"), Scratch::new("bomb"));
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(&npy("<f4", "(3,)", &[0; 16 << 20]))
        .expect("deflates");
    encoder.flush().expect("deflates");
    let mut data = encoder.get_ref().clone();
    data.extend([0xff; 64]);
    for says in [0, 12, 16 << 20, u32::MAX - 1] {
        let mut member = Member::stored("a.npy", &data);
        (member.deflated, member.says) = (true, says);
        let line = file.npz(&device, &archive(&[member]));
        let want = "a of shape [3] and type f4 has more than 12 bytes";
        // If a member says less than its header has, the archive's reader refuses the first bytes.
        assert!(line.ends_with(want) || says < 16 << 20, "{line}");
    }
}

#[test]
fn an_array_larger_than_the_devices_memory_is_refused_before_it_is_inflated() {
    let (device, file) = (cpu().expect("opens"), Scratch::new("larger"));
    for shape in [
        "(1125899906842624,)",
        "(4294967296, 4294967296)",
        "(9223372036854775808, 2, 0)",
    ] {
        let bytes = npy("|u1", shape, &[0; 64]);
        for line in [
            file.npy(&device, &bytes),
            file.npz(&device, &archive(&[Member::stored("a.npy", &bytes)])),
        ] {
            let refused =
                line.contains("out of memory") || line.contains("more than memory can hold");
            assert!(refused, "{shape}: {line}");
        }
    }
}

#[test]
fn bytes_behind_an_array_are_refused() {
    let (device, file) = (cpu().expect("opens"), Scratch::new("behind"));
    let bytes = npy("<f4", "(2,)", &[0; 9]);
    let want = "of shape [2] and type f4 has more than 8 bytes";
    assert!(file.npy(&device, &bytes).ends_with(want));
    assert!(
        file.npz(&device, &archive(&[Member::stored("a.npy", &bytes)]))
            .ends_with(want)
    );
    let whole = npy("<f4", "(2,)", &[0; 8]);
    for says in [1, u32::MAX - 1] {
        let mut member = Member::stored("a.npy", &whole);
        member.says = says;
        fs::write(&file.0, archive(&[member])).expect("writes");
        // Whatever the archive says of the size: the array or one line.
        match load_npz(&device, &file.0) {
            Ok(read) => assert_eq!(read["a"].shape(), [2]),
            Err(error) => drop(one_line(error)),
        }
    }
}

#[test]
fn members_that_hide_or_repeat_others_are_refused() {
    let (device, file) = (cpu().expect("opens"), Scratch::new("members"));
    let one = npy("<f4", "(1,)", &[0; 4]);
    let twice = archive(&[Member::stored("a.npy", &one), Member::stored("a.npy", &one)]);
    assert!(
        file.npz(&device, &twice)
            .ends_with("has several members of one name")
    );
    let mut again = Member::stored("b.npy", &one);
    again.at = Some(0);
    let shared = archive(&[Member::stored("a.npy", &one), again]);
    assert!(
        file.npz(&device, &shared)
            .ends_with("has members that lie in the same bytes")
    );
    let names: Vec<String> = (0..32_769).map(|n| format!("{n}.npy")).collect();
    let members = names.iter().map(|name| Member {
        at: Some(0),
        ..Member::stored(name, &one)
    });
    let many = archive(&members.collect::<Vec<_>>());
    assert!(
        file.npz(&device, &many)
            .ends_with("has 32769 members, expected at most 32768")
    );
}

#[test]
fn an_encrypted_member_and_one_that_is_no_array_are_one_line() {
    let (device, file) = (cpu().expect("opens"), Scratch::new("encrypted"));
    let one = npy("<f4", "(1,)", &[0; 4]);
    let mut secret = Member::stored("a.npy", &one);
    secret.flags = 1;
    let line = file.npz(&device, &archive(&[secret]));
    assert!(line.contains("assword"), "{line}");
    let line = file.npz(&device, &archive(&[Member::stored("a\nb\x1b[31m", &one)]));
    assert!(line.ends_with(r"a\nb\u{1b}[31m is no array"), "{line}");
}

#[test]
fn headers_of_any_length_and_type_take_no_memory() {
    let (device, file) = (cpu().expect("opens"), Scratch::new("headers"));
    let long = [b"\x93NUMPY\x02\x00", &u32::MAX.to_le_bytes()[..], b"{}"].concat();
    let line = file.npy(&device, &long);
    assert!(
        line.ends_with("has a header of 4294967295 bytes, expected at most 65536"),
        "{line}"
    );
    for descr in [
        "<f18446744073709551615",
        "<f",
        "",
        "<",
        "<f0",
        "<i-4",
        "<f4000000000000",
        "é4",
    ] {
        file.npy(&device, &npy(descr, "(2,)", &[0; 8]));
    }
    for shape in [
        "(18446744073709551616,)",
        "(-1,)",
        "(1e9,)",
        "((2,),)",
        "(",
        "[2]",
    ] {
        file.npy(&device, &npy("<f4", shape, &[0; 8]));
    }
    let deep = format!("({})", "1, ".repeat(9));
    file.npy(&device, &npy("<f4", &deep, &[0; 4]));
}

/// A safetensors file with this header, whatever length it says.
fn safetensors(length: u64, header: &str, data: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn sizes_in_safetensors_that_wrap_overlap_or_leave_the_file_are_refused() {
    let device = cpu().expect("opens");
    let of = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    for header in [
        of("F32", "[4294967296,4294967296]", "[0,0]"),
        of("F32", "[4611686018427387904]", "[0,0]"),
        of("F32", "[9223372036854775808,2,0]", "[0,0]"),
        of("F32", "[0,9223372036854775808,2]", "[0,0]"),
        of("U8", "[18446744073709551615]", "[0,18446744073709551615]"),
        of("U8", "[18446744073709551608]", "[0,18446744073709551608]"),
        of("F32", "[2]", "[8,0]"),
        of("F32", "[1]", "[4,8]"),
        of("F32", "[2]", "[0,4]"),
        of("F32", "[-1]", "[0,8]"),
        r#"{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}"#.to_owned(),
    ] {
        let bytes = safetensors(header.len() as u64, &header, &[0; 8]);
        let read = from_safetensors(&device, &bytes).map(|read| read.len());
        one_line(read.expect_err(&header));
    }
    let fine = of("U8", "[8]", "[0,8]");
    for length in [
        u64::MAX,
        u64::MAX - 7,
        1 << 63,
        100_000_001,
        fine.len() as u64 + 9,
        0,
    ] {
        let bytes = safetensors(length, &fine, &[0; 8]);
        one_line(
            from_safetensors(&device, &bytes)
                .map(|read| read.len())
                .expect_err("a lie"),
        );
    }
}
