//! The header of an npy file: a Python dictionary with the elements' type, their order and the shape.
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use std::io::{ErrorKind, Read};

use hlx_core::sizes;

const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The longest header: NumPy itself reads none of more than 10,000 bytes unless it is told to.
const MAX_LENGTH: usize = 1 << 16;

/// Data starts at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

/// What a header says.
#[derive(Debug)]
pub(crate) struct Header {
    /// The kind and the size in bytes of an element: `f4`.
    pub kind: String,
    pub big_endian: bool,
    /// Whether the first index changes fastest.
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

impl Header {
    /// The header of little-endian elements in row-major order.
    pub fn new(descr: &str, shape: &[usize]) -> Self {
        Self {
            kind: descr.to_owned(),
            big_endian: false,
            fortran_order: false,
            shape: shape.to_vec(),
        }
    }

    /// The bytes of a file up to its data, in version 1 of the format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let extents: String = self
            .shape
            .iter()
            .map(|extent| format!("{extent}, "))
            .collect();
        let (kind, tuple) = (&self.kind, extents.trim_end());
        let tuple = if self.shape.len() == 1 {
            tuple
        } else {
            tuple.trim_end_matches(',')
        };
        let mut text =
            format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({tuple}), }}");
        let before = MAGIC.len() + 4;
        let end = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
        text.extend(std::iter::repeat_n(' ', end - before - text.len() - 1));
        text.push('\n');
        // Eight extents and a type are far below 65,536 bytes.
        let length = (text.len() as u16).to_le_bytes();
        [&MAGIC[..], &[1, 0], &length, text.as_bytes()].concat()
    }

    /// Reads the header of a file, up to the data.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub fn read(source: &mut impl Read) -> Result<Self, String> {
        let mut magic = [0; 6];
        let read = source.read_exact(&mut magic);
        match read.map_err(|error| (error.kind(), error)) {
            Err((kind, error)) if kind != ErrorKind::UnexpectedEof => return Err(cut(error)),
            Ok(()) if magic == MAGIC => {}
            _ => return Err("is no npy file".to_owned()),
        }
        let [major, _] = chunk(source)?;
        let length = match major {
            1 => usize::from(u16::from_le_bytes(chunk(source)?)),
            2 | 3 => u32::from_le_bytes(chunk(source)?) as usize,
            _ => {
                return Err(format!(
                    "has version {major} of the format, expected 1 to 3"
                ));
            }
        };
        if length > MAX_LENGTH {
            return Err(format!(
                "has a header of {length} bytes, expected at most {MAX_LENGTH}"
            ));
        }
        let mut text = vec![0; length];
        source.read_exact(&mut text).map_err(cut)?;
        let text = String::from_utf8(text).map_err(|_| "has a header that is no text")?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let descr = value_of(text, "descr")?;
        let Some(descr) = quoted(descr) else {
            return Err("is an array of records".to_owned());
        };
        let (order, kind) = match descr.chars().next() {
            Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
            _ => ('=', descr),
        };
        let order_of = value_of(text, "fortran_order")?;
        let fortran_order = match () {
            () if order_of.starts_with("True") => true,
            () if order_of.starts_with("False") => false,
            () => return Err("has a header without an order".to_owned()),
        };
        let shape = value_of(text, "shape")?;
        let no_shape = || "has a header without a shape".to_owned();
        let tuple = shape
            .strip_prefix('(')
            .and_then(|shape| shape.split_once(')'));
        let (tuple, _) = tuple.ok_or_else(no_shape)?;
        let extents = tuple
            .split(',')
            .map(str::trim)
            .filter(|extent| !extent.is_empty());
        let shape = extents.map(str::parse).collect::<Result<_, _>>();
        Ok(Self {
            kind: kind.to_owned(),
            big_endian: order == '>',
            fortran_order,
            shape: shape.map_err(|_| no_shape())?,
        })
    }

    /// The bytes of the data; `None` if no memory has that many, or the type has no size.
    pub fn bytes(&self) -> Option<usize> {
        let size = self.kind.get(1..)?.parse::<usize>().ok()?;
        sizes::checked_product([sizes::checked_elements(&self.shape)?, size])
    }
}

/// The next bytes of a header.
fn chunk<const N: usize>(source: &mut impl Read) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes).map_err(cut)?;
    Ok(bytes)
}

/// What is wrong with a header that cannot be read to its end.
fn cut(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "is cut in its header".to_owned(),
        _ => format!("has a header that cannot be read: {error}"),
    }
}

/// The text after a key of the dictionary.
fn value_of<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let find = |quote: char| text.split_once(&format!("{quote}{key}{quote}"));
    let value = find('\'').or_else(|| find('"'));
    let value = value.and_then(|(_, behind)| behind.trim_start().strip_prefix(':'));
    value
        .map(str::trim_start)
        .ok_or_else(|| format!("has a header without {key}"))
}

/// The text between quotes at the start of a value.
fn quoted(value: &str) -> Option<&str> {
    let quote = value
        .chars()
        .next()
        .filter(|&quote| quote == '\'' || quote == '"')?;
    Some(value[1..].split_once(quote)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read_back() {
        for shape in [&[][..], &[7], &[3, 4], &[1, 0, 2]] {
            let mut bytes = Header::new("<f4", shape).to_bytes();
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            let data = bytes.len();
            bytes.extend([1, 2]);
            let mut rest = &bytes[..];
            let header = Header::read(&mut rest).expect("reads");
            assert_eq!(rest, &bytes[data..]);
            assert_eq!(header.shape, shape);
            assert_eq!((header.kind.as_str(), header.big_endian), ("f4", false));
        }
    }

    #[test]
    fn malformed_headers_are_named() {
        let of = |text: &str| Header::parse(text).expect_err("malformed");
        assert_eq!(of("{}"), "has a header without descr");
        assert_eq!(of("{'descr': [('a', '<f4')]}"), "is an array of records");
        let no_shape = "{'descr': '<f4', 'fortran_order': True, 'shape': (1, -2)}";
        assert_eq!(of(no_shape), "has a header without a shape");
        let no_order = "{\"descr\": \"<f4\", 'fortran_order': 1, 'shape': ()}";
        assert_eq!(of(no_order), "has a header without an order");
        assert_eq!(
            Header::read(&mut &b"PK"[..]).expect_err("a zip"),
            "is no npy file"
        );
    }
}
