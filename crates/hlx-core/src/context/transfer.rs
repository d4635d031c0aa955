//! Fills, copies, uploads and downloads of a context.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Backend, Context};
use crate::error::CoreError;
use crate::launch::{Binding, CpuBindings, Launch};
use crate::memory::Buffer;

impl Context {
    /// Fills a buffer with one word.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn fill(&self, buffer: &Buffer, word: u32) -> Result<(), CoreError> {
        match &self.inner.backend {
            Backend::Vulkan(stream) => {
                let _state = self.stream();
                stream.fill(buffer, word)
            }
            Backend::Cpu(_) => self.cpu_only("fill", &[Binding::Write(buffer)], move |bindings| {
                let ([], [out]) = bindings.split();
                out.fill(f32::from_bits(word));
            }),
        }
    }

    /// Copies `source` to `target`, of equal length and not overlapping.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] for unequal lengths or an overlap.
    pub fn copy(&self, source: &Buffer, target: &Buffer) -> Result<(), CoreError> {
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
        match &self.inner.backend {
            Backend::Vulkan(stream) => {
                let _state = self.stream();
                stream.copy(source, target)
            }
            Backend::Cpu(_) => {
                let bindings = [Binding::Read(source), Binding::Write(target)];
                self.cpu_only("copy", &bindings, |bindings| {
                    let ([source], [target]) = bindings.split();
                    target.copy_from_slice(source);
                })
            }
        }
    }

    fn cpu_only<F>(
        &self,
        name: &'static str,
        bindings: &[Binding<'_>],
        body: F,
    ) -> Result<(), CoreError>
    where
        F: Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    {
        const NONE: crate::Shader = crate::Shader {
            name: "",
            bytes: &[],
        };
        static NO_SHADER: crate::Shader = NONE;
        let launch = Launch {
            name,
            shader: &NO_SHADER,
            specialization: &[],
            bindings,
            push: &[],
            groups: [1, 1, 1],
        };
        self.launch(launch, body)
    }

    pub(super) fn check_transfer(
        &self,
        what: &str,
        buffer: &Buffer,
        len: usize,
    ) -> Result<(), CoreError> {
        if buffer.len() != len {
            let found = buffer.len();
            return Err(CoreError::invalid(
                what,
                format!("buffer has {found} words, data {len}"),
            ));
        }
        if self.stream().recording.is_some() {
            return Err(CoreError::invalid(
                what,
                "not possible while a graph is being recorded",
            ));
        }
        Ok(())
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
        self.check_transfer("upload", buffer, data.len())?;
        match &self.inner.backend {
            Backend::Vulkan(stream) => stream.upload(buffer, data, map),
            Backend::Cpu(_) => {
                let data: Vec<u32> = data.iter().map(|&word| map(word)).collect();
                self.cpu_only("upload", &[Binding::Write(buffer)], move |bindings| {
                    let ([], [out]) = bindings.split();
                    out.copy_from_slice(bytemuck::cast_slice(&data));
                })
            }
        }
    }

    /// Waits for all work and returns the buffer's words.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] while a graph is being recorded; [`CoreError::DeviceLost`].
    pub fn download_u32(&self, buffer: &Buffer) -> Result<Vec<u32>, CoreError> {
        self.check_transfer("download", buffer, buffer.len())?;
        match &self.inner.backend {
            Backend::Vulkan(stream) => stream.download(buffer),
            Backend::Cpu(_) => {
                let copied = Arc::new(Mutex::new(Vec::new()));
                let target = Arc::clone(&copied);
                self.cpu_only("download", &[Binding::Read(buffer)], move |bindings| {
                    let ([source], []) = bindings.split();
                    *target.lock().unwrap_or_else(PoisonError::into_inner) =
                        crate::as_u32(source).to_vec();
                })?;
                let words =
                    std::mem::take(&mut *copied.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(words)
            }
        }
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
