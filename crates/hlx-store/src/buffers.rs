//! Tensors between the store and a device's memory, a window at a time.

use super::{Content, Dtype, Handle, Header, Store, StoreError};
use hlx_core::Buffer;
use hlx_core::CoreError;
use hlx_core::Device;
use hlx_core::digest::canonical_bits;

/// Words moved at a time (16 MiB): the host never holds a second copy of a large tensor.
const WINDOW_WORDS: usize = 1 << 22;

impl Store {
    /// Stores a buffer of f32 as a tensor, every NaN as 0x7fc00000: payloads differ between
    /// devices, handles must not.
    ///
    /// # Errors
    /// [`StoreError::BadShape`] if the shape does not fit the buffer; [`StoreError::Device`] as
    /// [`Device::download`]; as [`Store::put_bytes`].
    pub fn put_buffer_f32(
        &self,
        device: &Device,
        shape: &[usize],
        buffer: &Buffer,
    ) -> Result<Handle, StoreError> {
        self.put_buffer(device, Dtype::F32, shape, buffer, |word| {
            canonical_bits(f32::from_bits(word))
        })
    }

    /// Stores a buffer of u32 as a tensor.
    ///
    /// # Errors
    /// As [`Store::put_buffer_f32`].
    pub fn put_buffer_u32(
        &self,
        device: &Device,
        shape: &[usize],
        buffer: &Buffer,
    ) -> Result<Handle, StoreError> {
        self.put_buffer(device, Dtype::U32, shape, buffer, |word| word)
    }

    fn put_buffer(
        &self,
        device: &Device,
        dtype: Dtype,
        shape: &[usize],
        buffer: &Buffer,
        map: impl Fn(u32) -> u32,
    ) -> Result<Handle, StoreError> {
        let header = Header::new(Content::tensor(dtype, shape), 4 * buffer.len() as u64)?;
        let mut bytes = Vec::new();
        self.put_pieces(&header, |sink| {
            for start in (0..buffer.len()).step_by(WINDOW_WORDS) {
                let len = WINDOW_WORDS.min(buffer.len() - start);
                let words = device.download_words(&buffer.slice(start, len)?)?;
                bytes.clear();
                bytes.extend(words.iter().flat_map(|&word| map(word).to_le_bytes()));
                sink(&bytes)?;
            }
            Ok(())
        })
    }

    /// Takes memory of the device, fills it with a tensor of f32, and returns it with its
    /// shape.
    ///
    /// # Errors
    /// [`StoreError::WrongKind`] for another dtype; [`StoreError::Device`] as [`Device::alloc`]
    /// and [`Device::upload`]; as [`Store::get_tensor`].
    pub fn get_buffer_f32(
        &self,
        device: &Device,
        handle: &Handle,
    ) -> Result<(Buffer, Vec<usize>), StoreError> {
        self.get_buffer(device, Dtype::F32, handle, |window, words| {
            device.upload::<f32>(window, bytemuck::cast_slice(words))
        })
    }

    /// Takes memory of the device, fills it with a tensor of u32, and returns it with its
    /// shape.
    ///
    /// # Errors
    /// As [`Store::get_buffer_f32`].
    pub fn get_buffer_u32(
        &self,
        device: &Device,
        handle: &Handle,
    ) -> Result<(Buffer, Vec<usize>), StoreError> {
        self.get_buffer(device, Dtype::U32, handle, |window, words| {
            device.upload_words(window, words)
        })
    }

    fn get_buffer(
        &self,
        device: &Device,
        expected: Dtype,
        handle: &Handle,
        upload: impl Fn(&Buffer, &[u32]) -> Result<(), CoreError>,
    ) -> Result<(Buffer, Vec<usize>), StoreError> {
        let opened = self.open_object(handle)?;
        let shape = match opened.header.content.clone() {
            Content::Tensor { dtype, shape } if dtype == expected => shape,
            _ => return Err(self.wrong_kind(opened, &format!("a tensor of {expected}"))),
        };
        let n_words = (opened.header.length / 4) as usize;
        let buffer = device.alloc(n_words)?;
        let (mut bytes, mut start) = (Vec::new(), 0);
        opened.read_pieces(|piece| {
            bytes.extend_from_slice(piece);
            let last = start + bytes.len() / 4 >= n_words;
            while bytes.len() >= 4 * WINDOW_WORDS || (last && bytes.len() >= 4) {
                let len = (bytes.len() / 4).min(WINDOW_WORDS);
                let words: Vec<u32> = bytes[..4 * len]
                    .chunks_exact(4)
                    .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect();
                upload(&buffer.slice(start, len)?, &words)?;
                bytes.drain(..4 * len);
                start += len;
            }
            Ok(())
        })?;
        Ok((buffer, shape))
    }
}
