//! Fills, copies, uploads and downloads of a context.

use super::{Context, Stream, on_stream};
use crate::error::CoreError;
use crate::launch::check_owner;
use crate::memory::Buffer;

impl Context {
    /// Fills a buffer with one word.
    ///
    /// # Errors
    /// [`CoreError::OtherContext`]; what the driver answers.
    pub fn fill(&self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        self.check_owner("fill", "buffer", buffer)?;
        on_stream!(self, stream => stream.fill(buffer, word))
    }

    /// Copies `source` to `target`, of equal length and not overlapping.
    ///
    /// # Errors
    /// [`CoreError::OtherContext`]; [`CoreError::Invalid`] for unequal lengths or an overlap.
    pub fn copy(&self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
        self.check_owner("copy", "source", source)?;
        self.check_owner("copy", "target", target)?;
        if source.len() != target.len() {
            let (found, expected) = (source.len(), target.len());
            return Err(CoreError::invalid(
                "copy",
                format!("source has {found} words, target {expected}"),
            ));
        }
        if source.overlaps(target) {
            return Err(CoreError::invalid("copy", "source and target share memory"));
        }
        on_stream!(self, stream => stream.copy(source, target))
    }

    pub(super) fn check_owner(
        &self,
        operation: &str,
        argument: &str,
        buffer: &Buffer,
    ) -> Result<(), CoreError> {
        check_owner(operation, &|| argument.to_owned(), buffer, self.source())
    }

    /// Copies words to the device, as they are.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if the lengths differ or a graph is being recorded.
    pub fn upload_u32(&self, buffer: &Buffer, data: &[u32]) -> Result<(), CoreError> {
        self.upload(buffer, data, |word| word)
    }

    /// Copies values to the device; subnormals become zeros of their sign, as no tensor holds one.
    ///
    /// # Errors
    /// As [`Context::upload_u32`].
    pub fn upload_f32(&self, buffer: &Buffer, data: &[f32]) -> Result<(), CoreError> {
        const SIGN: u32 = 0x8000_0000;
        const EXPONENT: u32 = 0x7f80_0000;
        self.upload(buffer, bytemuck::cast_slice(data), |bits| {
            if bits & EXPONENT == 0 {
                bits & SIGN
            } else {
                bits
            }
        })
    }

    fn upload(
        &self,
        buffer: &Buffer,
        data: &[u32],
        map: impl Fn(u32) -> u32 + Copy,
    ) -> Result<(), CoreError> {
        self.check_owner("upload", "buffer", buffer)?;
        if buffer.len() != data.len() {
            let (found, given) = (buffer.len(), data.len());
            let reason = format!("buffer has {found} words, data {given}");
            return Err(CoreError::invalid("upload", reason));
        }
        on_stream!(self, stream => stream.upload(buffer, data, map))
    }

    /// Waits for all work and returns the buffer's words.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] while a graph is being recorded; [`CoreError::DeviceLost`].
    pub fn download_u32(&self, buffer: &Buffer) -> Result<Vec<u32>, CoreError> {
        self.check_owner("download", "buffer", buffer)?;
        on_stream!(self, stream => stream.download(buffer))
    }

    /// Waits for all work and returns the buffer's values.
    ///
    /// # Errors
    /// As [`Context::download_u32`].
    pub fn download_f32(&self, buffer: &Buffer) -> Result<Vec<f32>, CoreError> {
        Ok(self
            .download_u32(buffer)?
            .into_iter()
            .map(f32::from_bits)
            .collect())
    }

    /// Takes memory for the values and uploads them.
    ///
    /// # Errors
    /// As [`Context::alloc`] and [`Context::upload_f32`].
    pub fn buffer_f32(&self, data: &[f32]) -> Result<Buffer, CoreError> {
        let buffer = self.alloc(data.len())?;
        self.upload_f32(&buffer, data)?;
        Ok(buffer)
    }

    /// Takes memory for the words and uploads them.
    ///
    /// # Errors
    /// As [`Context::alloc`] and [`Context::upload_u32`].
    pub fn buffer_u32(&self, data: &[u32]) -> Result<Buffer, CoreError> {
        let buffer = self.alloc(data.len())?;
        self.upload_u32(&buffer, data)?;
        Ok(buffer)
    }
}
