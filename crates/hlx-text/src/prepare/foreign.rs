//! Files that are not text, told by their first bytes, and the mark that some editors put in front of text.

use hlx_core::files;

/// Bytes that tell what a file is.
pub const HEAD: usize = 512;

const CONVERT: &str = "convert it to JSON lines, one record a line";

/// First bytes of files, and what they are. The longer ones of an equal beginning come first.
const KINDS: [(&[u8], &str); 20] = [
    (b"PAR1", "Parquet"),
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xff\xff\xff", "an Arrow stream"),
    (b"FEA1", "a Feather file"),
    (b"Obj\x01", "Avro"),
    (b"ORC", "ORC"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x93NUMPY", "an array of NumPy"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a rar archive"),
    (b"BZh", "compressed with bzip2"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"\x04\x22\x4d\x18", "compressed with lz4"),
    (b"%PDF-", "a PDF"),
];

/// Says what a file is that holds no text, and what to do, by its first bytes ([`HEAD`] of them).
pub fn no_text(head: &[u8]) -> Option<String> {
    let is = |mark: &[u8]| head.starts_with(mark);
    if files::is_lfs_pointer(head) {
        return Some(files::IS_LFS_POINTER.to_owned());
    }
    let encoding = match () {
        () if is(b"\xff\xfe\0\0") || is(b"\0\0\xfe\xff") => Some("UTF-32"),
        () if is(b"\xff\xfe") || is(b"\xfe\xff") => Some("UTF-16"),
        () => None,
    };
    if let Some(encoding) = encoding {
        return Some(format!(
            "is {encoding}, expected UTF-8: `iconv -f {encoding} -t UTF-8` converts it"
        ));
    }
    // A text may begin with the letters of some of these marks.
    if is_text(head) {
        return None;
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some("is a tar archive: unpack it".to_owned());
    }
    let (_, what) = KINDS.iter().find(|(mark, _)| is(mark))?;
    let advice = match what {
        _ if what.ends_with("archive") => "unpack it",
        _ if what.starts_with("compressed") => "decompress it, or compress it with gzip or zstd",
        _ => CONVERT,
    };
    Some(format!("is {what}, expected text: {advice}"))
}

/// Whether bytes are those of a text, whose last character may be cut.
fn is_text(head: &[u8]) -> bool {
    let is_utf8 =
        std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 14..=26 | 28..=31);
    is_utf8 && !head.iter().any(is_control)
}
