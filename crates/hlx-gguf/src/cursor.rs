//! Reading a file's header from its start on, a piece at a time, and never past what is there.

use std::ops::Range;

use hlx_core::files::Source;

use crate::error::shown;
use crate::value::{ARRAY, Array, TEXT, Value};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 18;
/// The longest header: the tokens and merges of the largest vocabularies take some 20 MiB.
const MAX_HEADER: u64 = 512 << 20;
/// Lists in lists, beyond which a file is refused.
const MAX_DEPTH: usize = 4;

/// The place in a header.
pub(crate) struct Cursor<'a> {
    source: &'a Source,
    /// The bytes of the file that are at hand, and where they begin.
    piece: Vec<u8>,
    first: u64,
    at: u64,
    end: u64,
}

/// Types whose elements have a fixed number of bytes, read into a list each.
macro_rules! fixed {
    ($self:ident, $id:ident, $n:ident, $($number:literal => $name:ident $type:ty;)+) => {
        match $id {
            $($number => {
                const SIZE: usize = size_of::<$type>();
                let read = |bytes: [u8; SIZE]| <$type>::from_le_bytes(bytes);
                Array::$name($self.elements::<SIZE, _>($n, read)?)
            })+
            other => return Err(format!("a value has the unknown type {other}")),
        }
    };
}

impl<'a> Cursor<'a> {
    pub fn new(source: &'a Source) -> Self {
        Self {
            source,
            piece: Vec::new(),
            first: 0,
            at: 0,
            end: source.len().min(MAX_HEADER),
        }
    }

    /// The bytes of the header at most that are left.
    fn left(&self) -> u64 {
        self.end - self.at
    }

    /// Fails unless so many bytes are left.
    fn expect(&self, n_bytes: Option<u64>) -> Result<u64, String> {
        match n_bytes.filter(|&n_bytes| n_bytes <= self.left()) {
            Some(n_bytes) => Ok(n_bytes),
            None if self.end == self.source.len() => Err(format!(
                "is cut short: at byte {} its header goes on past the end, which is byte {}",
                self.at, self.end
            )),
            None => Err(format!("has a header of more than {MAX_HEADER} bytes")),
        }
    }

    /// The next bytes.
    fn take(&mut self, n_bytes: u64) -> Result<&[u8], String> {
        self.expect(Some(n_bytes))?;
        if self.at + n_bytes > self.first + self.piece.len() as u64 {
            let end = (self.at + n_bytes.max(PIECE)).min(self.end);
            let read = self.source.read(self.at..end);
            self.piece = read.map_err(|error| error.to_string())?;
            self.first = self.at;
        }
        let start = (self.at - self.first) as usize;
        self.at += n_bytes;
        Ok(&self.piece[start..start + n_bytes as usize])
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64)?);
        Ok(bytes)
    }

    pub fn magic(&mut self) -> Result<[u8; 4], String> {
        self.fixed()
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, String> {
        self.fixed().map(u64::from_le_bytes)
    }

    /// A text of at most so many bytes, which messages call by a name.
    pub fn text(&mut self, what: &str, most: u64) -> Result<String, String> {
        let n_bytes = self.u64()?;
        if n_bytes > most {
            return Err(format!(
                "{what} has {n_bytes} bytes, expected at most {most}"
            ));
        }
        let place = self.at;
        let bytes = self.take(n_bytes)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => {
                let place = place + error.valid_up_to() as u64;
                Err(format!("{what} is not UTF-8 at byte {place}"))
            }
        }
    }

    /// A value of metadata.
    pub fn value(&mut self, key: &str) -> Result<Value, String> {
        let named = |reason| format!("`{}`: {reason}", shown(key));
        let id = self.u32()?;
        match id {
            TEXT => self.text("a text", u64::MAX).map(Value::Text),
            ARRAY => self.array(1).map(Value::Array),
            _ => self.list(id, 1, 0).and_then(first_of),
        }
        .map_err(named)
    }

    /// A list: the type of its elements, their number and themselves.
    fn array(&mut self, depth: usize) -> Result<Array, String> {
        if depth > MAX_DEPTH {
            return Err(format!("lists in lists, more than {MAX_DEPTH} deep"));
        }
        let (id, n) = (self.u32()?, self.u64()?);
        self.list(id, n, depth)
    }

    /// Elements of one type. Memory is taken for no more of them than the file can hold.
    fn list(&mut self, id: u32, n: u64, depth: usize) -> Result<Array, String> {
        if id == TEXT {
            self.expect(n.checked_mul(8))?;
            let texts = (0..n).map(|_| self.text("a text", u64::MAX));
            return texts.collect::<Result<_, _>>().map(Array::Text);
        }
        if id == ARRAY {
            self.expect(n.checked_mul(12))?;
            let lists = (0..n).map(|_| self.array(depth + 1));
            return lists.collect::<Result<_, _>>().map(Array::Array);
        }
        if id == 7 {
            return self.truths(n).map(Array::Bool);
        }
        Ok(fixed! { self, id, n,
            0 => U8 u8;
            1 => I8 i8;
            2 => U16 u16;
            3 => I16 i16;
            4 => U32 u32;
            5 => I32 i32;
            6 => F32 f32;
            10 => U64 u64;
            11 => I64 i64;
            12 => F64 f64;
        })
    }

    fn elements<const SIZE: usize, T>(
        &mut self,
        n: u64,
        read: impl Fn([u8; SIZE]) -> T,
    ) -> Result<Vec<T>, String> {
        let n_bytes = self.expect(n.checked_mul(SIZE as u64))?;
        let bytes = self.take(n_bytes)?;
        let (elements, _) = bytes.as_chunks::<SIZE>();
        Ok(elements.iter().map(|&element| read(element)).collect())
    }

    fn truths(&mut self, n: u64) -> Result<Vec<bool>, String> {
        let bytes = self.elements::<1, _>(n, |[byte]| byte)?;
        let truths = bytes.into_iter().map(|byte| match byte {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("a truth is {other}, expected 0 or 1")),
        });
        truths.collect()
    }

    /// The place of the first byte after the header that is a multiple of `alignment`, and the end of the file.
    pub fn data(&self, alignment: u64) -> Range<u64> {
        let start = self.at.next_multiple_of(alignment);
        start..self.source.len()
    }
}

/// The only element of a list.
fn first_of(list: Array) -> Result<Value, String> {
    macro_rules! first {
        ($($name:ident)+) => {
            match list {
                $(Array::$name(all) => all.into_iter().next().map(Value::$name),)+
                Array::Text(_) | Array::Array(_) => None,
            }
        };
    }
    let first = first!(U8 I8 U16 I16 U32 I32 F32 Bool U64 I64 F64);
    first.ok_or_else(|| "a value without an element".to_owned())
}
