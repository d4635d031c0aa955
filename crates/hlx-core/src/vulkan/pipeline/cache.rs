//! The driver's cache of compiled pipelines, stored on disk with a checksum.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use vulkano::device::Device;
use vulkano::pipeline::cache::{PipelineCache, PipelineCacheCreateInfo};

use crate::device_info::DeviceInfo;
use crate::error::CoreError;
use crate::files;
use crate::vulkan::translate_validated;

/// Temporary files of this age in the cache folder were left by killed processes.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The first bytes of a pipeline cache on disk; the SHA-256 of the rest follows them.
const CACHE_MAGIC: &[u8; 16] = b"HLX pipelines 1\n";

/// Puts the checksum in front of a driver's cache data.
fn seal_cache(data: &[u8]) -> Vec<u8> {
    [CACHE_MAGIC, &Sha256::digest(data)[..], data].concat()
}

/// Returns the driver's data of a cache file, if its checksum is right: drivers check the header
/// of what they are given and trust the rest.
fn unseal_cache(bytes: &[u8]) -> Option<&[u8]> {
    let (checksum, data) = bytes.strip_prefix(CACHE_MAGIC)?.split_at_checked(32)?;
    (Sha256::digest(data)[..] == *checksum).then_some(data)
}

/// Reads the driver's data of a cache file; none of a file that is not there or damaged.
fn read_cache(path: &Path) -> Vec<u8> {
    let Ok(bytes) = files::read_settings(path) else {
        return Vec::new();
    };
    let data = unseal_cache(&bytes);
    if data.is_none() {
        let path = path.display();
        tracing::warn!("pipeline cache {path}: damaged or of an older HLX; it is made anew");
    }
    data.map(<[u8]>::to_vec).unwrap_or_default()
}

/// A driver's pipeline cache and its file.
pub(super) struct StoredCache {
    pub cache: Arc<PipelineCache>,
    path: Option<PathBuf>,
}

impl StoredCache {
    /// Creates the driver's cache of what its file holds; empty where there is none.
    pub fn open(device: &Arc<Device>, info: &DeviceInfo) -> Result<Self, CoreError> {
        let folder = files::cache_dir();
        let path = folder.map(|dir| dir.join(format!("pipelines-{}.bin", info.cache_key)));
        let create_info = PipelineCacheCreateInfo {
            initial_data: path.as_deref().map(read_cache).unwrap_or_default(),
            ..PipelineCacheCreateInfo::default()
        };
        // SAFETY: the file's name carries vendor, device, driver and cache UUID, and its checksum
        // shows that the data are those that `save` was given by that driver.
        let cache = unsafe { PipelineCache::new(Arc::clone(device), create_info) }
            .map_err(|error| translate_validated(&info.name, "create the pipeline cache", error))?;
        Ok(Self { cache, path })
    }

    /// Writes the cache to disk. A cache that cannot be written costs time at the next start and
    /// nothing else, so that is only logged.
    pub fn save(&self) {
        let Some(path) = &self.path else {
            return;
        };
        let data = match self.cache.get_data() {
            Ok(data) => data,
            Err(error) => return tracing::warn!("pipeline cache: {error}"),
        };
        let written = files::write_with_folder(path, &seal_cache(&data))
            .and_then(|()| files::remove_temporaries(files::parent(path), ABANDONED));
        if let Err(error) = written {
            tracing::warn!("pipeline cache {}: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_pipeline_cache_is_ignored() {
        let file = seal_cache(b"what a driver stores");
        assert_eq!(unseal_cache(&file), Some(&b"what a driver stores"[..]));
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(unseal_cache(&damaged), None, "byte {at}");
            assert_eq!(unseal_cache(&file[..at]), None, "{at} bytes");
        }
        let path = std::env::temp_dir().join(format!("hlx-cache-{}.bin", std::process::id()));
        files::write_with_folder(&path, &file).expect("writes");
        assert_eq!(read_cache(&path), b"what a driver stores");
        std::fs::write(&path, b"raw data of an older version").expect("writes");
        assert!(read_cache(&path).is_empty());
        std::fs::remove_file(&path).expect("removes");
    }
}
