//! Opening a file of text: plain, gzip or zstd, told by its first bytes.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use hlx_core::files;
use ruzstd::decoding::StreamingDecoder;

use super::foreign;
use crate::{Result, TextError};

/// The largest window of a zstd frame, as of `zstd --long=31`.
const MAX_WINDOW: u64 = 2 << 30;

/// Opens a regular file; what is compressed is decompressed while it is read, and UTF-8's mark at the start is
/// left out.
///
/// # Errors
/// What the system reports; a file that holds no text, by its first bytes.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    let failed = |error: io::Error| TextError::file(path, error);
    let file = files::open(path).map_err(failed)?;
    let mut file = BufReader::with_capacity(1 << 18, file);
    let start = file.fill_buf().map_err(failed)?;
    let is = |magic: &[u8]| start.starts_with(magic);
    let text: Box<dyn Read + Send> = match () {
        () if is(&[0x1f, 0x8b]) => Box::new(MultiGzDecoder::new(file)),
        () if is(&[0x28, 0xb5, 0x2f, 0xfd]) => Box::new(ZstdReader::new(file)),
        () => Box::new(file),
    };
    without_mark(text, path)
}

/// Looks at the first bytes of a text.
fn without_mark(mut text: Box<dyn Read + Send>, path: &Path) -> Result<Box<dyn Read + Send>> {
    let failed = |error: io::Error| TextError::file(path, error);
    let mut head = Vec::with_capacity(foreign::HEAD);
    let read = (&mut text)
        .take(foreign::HEAD as u64)
        .read_to_end(&mut head);
    read.map_err(failed)?;
    if let Some(reason) = foreign::no_text(&head) {
        return Err(TextError::file(path, reason));
    }
    if head.starts_with(files::BYTE_ORDER_MARK) {
        head.drain(..files::BYTE_ORDER_MARK.len());
    }
    Ok(Box::new(Cursor::new(head).chain(text)))
}

/// The frames of a zstd file, one after the other, with their checksums compared.
pub(super) struct ZstdReader<R: BufRead> {
    frame: Frame<R>,
}

enum Frame<R: BufRead> {
    /// Before a frame.
    Before(R),
    Within(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    /// An error has come; nothing follows.
    Failed,
}

impl<R: BufRead> ZstdReader<R> {
    pub fn new(source: R) -> Self {
        Self {
            frame: Frame::Before(source),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.frame, Frame::Failed) {
                Frame::Before(mut source) => {
                    if source.fill_buf()?.is_empty() {
                        self.frame = Frame::Before(source);
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new_with_max_window_size(source, MAX_WINDOW);
                    let decoder = decoder.map_err(io::Error::other)?;
                    self.frame = Frame::Within(Box::new(decoder));
                }
                Frame::Within(mut decoder) => {
                    let n = decoder.read(into)?;
                    if n > 0 {
                        self.frame = Frame::Within(decoder);
                        return Ok(n);
                    }
                    let stated = decoder.decoder.get_checksum_from_data();
                    if stated.is_some() && stated != decoder.decoder.get_calculated_checksum() {
                        return Err(io::Error::other("zstd: the checksum differs"));
                    }
                    self.frame = Frame::Before(decoder.into_inner());
                }
                Frame::Failed => return Err(io::Error::other("zstd: the file is damaged")),
            }
        }
    }
}
