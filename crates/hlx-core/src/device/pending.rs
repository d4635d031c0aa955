//! Downloads under way, which the host waits for later.

use super::Device;
use crate::error::CoreError;
use crate::memory::Buffer;
use crate::stream::Stream;
use crate::vulkan::HostCopy;

/// A download under way: a buffer's words as they were when
/// [`Device::download_later`] was called; work launched later does not change them.
///
/// Dropping it waits for the device.
pub struct PendingDownload {
    device: Device,
    words: Option<Words>,
}

enum Words {
    Here(Vec<u32>),
    /// A copy to the host, and its words.
    Coming(HostCopy, usize),
}

impl Device {
    /// Starts a download and returns at once: the device continues with what is launched next.
    ///
    /// # Errors
    /// As [`Device::download_words`].
    pub fn download_later(&self, buffer: &Buffer) -> Result<PendingDownload, CoreError> {
        let words = match self.stream() {
            Stream::Vulkan(stream) if !buffer.is_empty() && !self.leaves_out() => {
                self.check_owner("download", "buffer", buffer)?;
                let words = buffer.as_words();
                Words::Coming(stream.read_back(&words)?, words.len())
            }
            _ => Words::Here(self.download_words(buffer)?),
        };
        Ok(PendingDownload {
            device: self.clone(),
            words: Some(words),
        })
    }
}

impl PendingDownload {
    /// Whether [`PendingDownload::wait`] would return at once.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`].
    pub fn is_done(&self) -> Result<bool, CoreError> {
        match (self.device.stream(), &self.words) {
            (Stream::Vulkan(stream), Some(Words::Coming(copy, _))) => stream.is_copied(copy),
            _ => Ok(true),
        }
    }

    /// Waits for the words and returns them.
    ///
    /// # Errors
    /// [`CoreError::DeviceLost`].
    pub fn wait(mut self) -> Result<Vec<u32>, CoreError> {
        self.receive()
    }

    fn receive(&mut self) -> Result<Vec<u32>, CoreError> {
        match (self.device.stream(), self.words.take()) {
            (Stream::Vulkan(stream), Some(Words::Coming(copy, n))) => stream.receive(copy, n),
            (_, Some(Words::Here(words))) => Ok(words),
            _ => Ok(Vec::new()),
        }
    }
}

impl Drop for PendingDownload {
    fn drop(&mut self) {
        if let Err(error) = self.receive() {
            tracing::error!("a download that nobody read: {error}");
        }
    }
}
