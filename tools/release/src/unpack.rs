//! Unpacks the root file system of an OCI archive, as a container's runtime does, and checks every digest.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use tar::Archive;

use crate::hashed::Hashed;

/// Unpacks the layers of the archive's only image, the lowest first.
///
/// # Errors
/// An archive that is malformed, a blob whose bytes do not have its digest, a folder that cannot be written.
pub fn run(archive: &Path, folder: &Path) -> Result<()> {
    let blobs = folder.with_extension("blobs");
    fs::create_dir_all(&blobs).with_context(|| blobs.display().to_string())?;
    let done = unpack(archive, &blobs, folder).with_context(|| archive.display().to_string());
    fs::remove_dir_all(&blobs).with_context(|| blobs.display().to_string())?;
    done
}

fn unpack(archive: &Path, blobs: &Path, folder: &Path) -> Result<()> {
    let members = members(archive, blobs)?;
    let read = |name: &str| -> Result<Value> {
        let path = members
            .get(name)
            .with_context(|| format!("has no {name}"))?;
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    };
    let index = read("index.json")?;
    let [image] = index["manifests"].as_array().map_or(&[][..], Vec::as_slice) else {
        bail!("index.json: expected one image");
    };
    let manifest = read(&blob_name(&image["digest"])?)?;
    let config = read(&blob_name(&manifest["config"]["digest"])?)?;
    let layers = manifest["layers"]
        .as_array()
        .context("the manifest has no layers")?;
    let diff_ids = config["rootfs"]["diff_ids"]
        .as_array()
        .context("the configuration has no layers")?;
    ensure!(
        layers.len() == diff_ids.len(),
        "the manifest and the configuration have other layers"
    );
    fs::create_dir_all(folder)?;
    for (layer, diff_id) in layers.iter().zip(diff_ids) {
        let path = members
            .get(&blob_name(&layer["digest"])?)
            .context("a layer is missing")?;
        let mut tar = Hashing(
            Hashed::new(io::sink()),
            GzDecoder::new(BufReader::new(File::open(path)?)),
        );
        {
            let mut layer = Archive::new(&mut tar);
            layer.set_preserve_permissions(true);
            layer.set_unpack_xattrs(false);
            layer.unpack(folder)?;
        }
        io::copy(&mut tar, &mut io::sink())?;
        let digest = tar.0.finish().1;
        ensure!(
            diff_id == &Value::String(format!("sha256:{digest}")),
            "a layer has the digest {digest}, expected {diff_id}"
        );
    }
    Ok(())
}

/// Copies the members into a folder, and compares the blobs with the digests that are their names.
fn members(archive: &Path, folder: &Path) -> Result<HashMap<String, PathBuf>> {
    let mut members = HashMap::new();
    let mut archive = Archive::new(BufReader::new(File::open(archive)?));
    for (number, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let path = folder.join(number.to_string());
        let mut out = Hashed::new(File::create(&path)?);
        io::copy(&mut entry, &mut out)?;
        let (_, digest, _) = out.finish();
        if let Some(expected) = name.strip_prefix("blobs/sha256/") {
            ensure!(digest == expected, "{name}: has the digest {digest}");
        }
        members.insert(name, path);
    }
    Ok(members)
}

fn blob_name(digest: &Value) -> Result<String> {
    let digest = digest
        .as_str()
        .and_then(|digest| digest.strip_prefix("sha256:"));
    Ok(format!(
        "blobs/sha256/{}",
        digest.context("a digest is missing, or is no SHA-256")?
    ))
}

/// A reader whose bytes are digested.
struct Hashing<R>(Hashed<io::Sink>, R);

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.1.read(into)?;
        io::Write::write_all(&mut self.0, &into[..n])?;
        Ok(n)
    }
}
