//! The header of an npy file: a Python dictionary with the elements' type, their order and the shape.
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

const MAGIC: &[u8] = b"\x93NUMPY";

/// Data starts at a multiple of so many bytes.
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
    /// Of little-endian elements in row-major order.
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
        [MAGIC, &[1, 0], &length, text.as_bytes()].concat()
    }

    /// Reads the header of a file and returns it with the data, of which there is enough.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("is no npy file")?;
        let cut = || "is cut in its header".to_owned();
        let (&[major, _], rest) = rest.split_first_chunk().ok_or_else(cut)?;
        let (length, rest) = match major {
            1 => {
                let (length, rest) = rest.split_first_chunk().ok_or_else(cut)?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            2 | 3 => {
                let (length, rest) = rest.split_first_chunk().ok_or_else(cut)?;
                (u32::from_le_bytes(*length) as usize, rest)
            }
            _ => {
                return Err(format!(
                    "has version {major} of the format, expected 1 to 3"
                ));
            }
        };
        let (text, data) = rest.split_at_checked(length).ok_or_else(cut)?;
        let text = std::str::from_utf8(text).map_err(|_| "has a header that is no text")?;
        let header = Self::parse(text)?;
        let needed = header.bytes();
        if needed.is_none_or(|needed| needed > data.len()) {
            let (shape, found) = (&header.shape, data.len());
            return Err(format!(
                "of shape {shape:?} and type {} has {found} bytes",
                header.kind
            ));
        }
        Ok((header, data))
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

    /// The bytes of the data; `None` if no file has so many, or the type has no size.
    fn bytes(&self) -> Option<usize> {
        let size = self.kind.get(1..)?.parse::<usize>().ok()?;
        self.shape
            .iter()
            .try_fold(size, |n, &extent| n.checked_mul(extent))
    }
}

/// The text behind a key of the dictionary.
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
            bytes.resize(bytes.len() + 4 * shape.iter().product::<usize>(), 0);
            let (header, _) = Header::read(&bytes).expect("reads");
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
        assert_eq!(Header::read(b"PK").expect_err("a zip"), "is no npy file");
    }
}
