//! Fills, copies, uploads and downloads of a device.

use super::Device;
use crate::dtype::{DType, Element, pack, unpack};
use crate::error::CoreError;
use crate::launch::check_owner;
use crate::memory::Buffer;
use crate::stream::{Stream, on_stream};

impl Device {
    /// Fills a buffer with one word; a type of fewer bytes has it cut into elements.
    ///
    /// # Errors
    /// [`CoreError::OtherDevice`]; what the driver answers.
    pub fn fill(&self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        self.check_owner("fill", "buffer", buffer)?;
        if self.leaves_out() {
            return Ok(());
        }
        on_stream!(self, stream => stream.fill(&buffer.as_words(), word))
    }

    /// Copies `source` to `target`, of equal size and not overlapping; the words are copied as they
    /// are.
    ///
    /// # Errors
    /// [`CoreError::OtherDevice`]; [`CoreError::Invalid`] for unequal sizes or an overlap.
    pub fn copy(&self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
        self.check_owner("copy", "source", source)?;
        self.check_owner("copy", "target", target)?;
        if source.words() != target.words() {
            let (found, expected) = (source.words(), target.words());
            return Err(CoreError::invalid(
                "copy",
                format!("source has {found} words, target {expected}"),
            ));
        }
        if source.overlaps(target) {
            return Err(CoreError::invalid("copy", "source and target share memory"));
        }
        let (source, target) = (source.as_words(), target.as_words());
        if self.leaves_out() {
            return Ok(());
        }
        on_stream!(self, stream => stream.copy(&source, &target))
    }

    pub(super) fn check_owner(
        &self,
        operation: &str,
        argument: &str,
        buffer: &Buffer,
    ) -> Result<(), CoreError> {
        check_owner(operation, &|| argument.to_owned(), buffer, self.source())
    }

    /// Copies elements to the device, as [`Element::stored`] says: subnormals become zeros of their
    /// sign, as no tensor holds one.
    ///
    /// # Errors
    /// [`CoreError::OtherDevice`]; [`CoreError::Invalid`] if the types or the lengths differ, or a
    /// graph is being recorded.
    pub fn upload<T: Element>(&self, buffer: &Buffer, data: &[T]) -> Result<(), CoreError> {
        check_type("upload", buffer, T::DTYPE)?;
        if buffer.len() != data.len() {
            let (found, given) = (buffer.len(), data.len());
            let reason = format!("buffer has {found} elements, data {given}");
            return Err(CoreError::invalid("upload", reason));
        }
        match T::DTYPE {
            DType::F32 => self.write_words(buffer, bytemuck::cast_slice(data), stored_f32),
            DType::I32 | DType::U32 => self.upload_words(buffer, bytemuck::cast_slice(data)),
            _ => self.upload_words(buffer, &pack(data)),
        }
    }

    /// Waits for all work and returns the buffer's elements.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if the types differ or a graph is being recorded;
    /// [`CoreError::OtherDevice`]; [`CoreError::DeviceLost`].
    pub fn download<T: Element>(&self, buffer: &Buffer) -> Result<Vec<T>, CoreError> {
        check_type("download", buffer, T::DTYPE)?;
        Ok(unpack(self.download_words(buffer)?, buffer.len()))
    }

    /// Copies words to the device, as they are, whatever the type of the buffer's elements.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] if the sizes differ or a graph is being recorded.
    pub fn upload_words(&self, buffer: &Buffer, data: &[u32]) -> Result<(), CoreError> {
        self.write_words(buffer, data, |word| word)
    }

    fn write_words(
        &self,
        buffer: &Buffer,
        data: &[u32],
        map: impl Fn(u32) -> u32 + Copy,
    ) -> Result<(), CoreError> {
        self.check_owner("upload", "buffer", buffer)?;
        if buffer.words() != data.len() {
            let (found, given) = (buffer.words(), data.len());
            let reason = format!("buffer has {found} words, data {given}");
            return Err(CoreError::invalid("upload", reason));
        }
        if self.leaves_out() {
            return Ok(());
        }
        on_stream!(self, stream => stream.upload(&buffer.as_words(), data, map))
    }

    /// Waits for all work and returns the buffer's words, whatever the type of its elements.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] while a graph is being recorded; [`CoreError::DeviceLost`];
    /// [`CoreError::Fault`] if a kernel has found one.
    pub fn download_words(&self, buffer: &Buffer) -> Result<Vec<u32>, CoreError> {
        let words = self.read_words(buffer)?;
        self.check_flags()?;
        Ok(words)
    }

    /// Downloads words, and reports no fault.
    pub(super) fn read_words(&self, buffer: &Buffer) -> Result<Vec<u32>, CoreError> {
        self.check_owner("download", "buffer", buffer)?;
        if self.leaves_out() {
            return Ok(vec![0; buffer.words()]);
        }
        on_stream!(self, stream => stream.download(&buffer.as_words()))
    }

    /// Takes memory for the elements and uploads them.
    ///
    /// # Errors
    /// As [`Device::alloc_typed`] and [`Device::upload`].
    pub fn buffer_of<T: Element>(&self, data: &[T]) -> Result<Buffer, CoreError> {
        let buffer = self.alloc_typed(T::DTYPE, data.len())?;
        self.upload(&buffer, data)?;
        Ok(buffer)
    }
}

/// The bits that a tensor holds for a value's: a subnormal is a zero of its sign.
fn stored_f32(bits: u32) -> u32 {
    f32::from_bits(bits).stored().to_bits()
}

fn check_type(operation: &str, buffer: &Buffer, expected: DType) -> Result<(), CoreError> {
    let found = buffer.dtype();
    if found == expected {
        return Ok(());
    }
    let reason = format!("buffer has elements of {found}, expected {expected}");
    Err(CoreError::invalid(operation, reason))
}
