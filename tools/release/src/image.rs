//! OCI archives (image-spec 1.1): a layer of a root file system, and a layer of HLX's files above it.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use tar::Builder;

use crate::entries;
use crate::hashed::{Hashed, sha256};
use crate::tarball;

/// What an image is made of.
#[derive(clap::Args)]
pub struct Arguments {
    /// A tar file of the root file system.
    #[arg(long)]
    base: PathBuf,
    /// The list of files of the upper layer.
    #[arg(long)]
    list: PathBuf,
    /// A JSON file: the image's `config` (Env, Entrypoint, ..) as the OCI specification has it.
    #[arg(long)]
    config: PathBuf,
    /// The processor, by Go's name: amd64 or arm64.
    #[arg(long)]
    architecture: String,
    /// The image's name and tag in the archive's index.
    #[arg(long)]
    name: String,
    /// The time of all files, in seconds since 1970.
    #[arg(long)]
    epoch: u64,
    /// The same time as RFC 3339 writes it.
    #[arg(long)]
    created: String,
    /// The archive.
    #[arg(long)]
    out: PathBuf,
}

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A layer in a file of its own: digests of what it holds, and of what is stored.
struct Layer {
    file: PathBuf,
    diff_id: String,
    digest: String,
    size: u64,
}

/// Makes the archive.
///
/// # Errors
/// A file that cannot be read or written, a configuration that is no JSON object.
pub fn run(arguments: &Arguments) -> Result<()> {
    let base = layer(&arguments.out.with_extension("base"), |out| {
        let mut base = BufReader::new(File::open(&arguments.base)?);
        io::copy(&mut base, out)?;
        Ok(())
    })
    .with_context(|| arguments.base.display().to_string())?;
    let entries = entries::read(&arguments.list)?;
    let upper = layer(&arguments.out.with_extension("upper"), |out| {
        tarball::write(&entries, out, arguments.epoch)
    })?;
    let layers = [base, upper];
    let written = write(arguments, &layers);
    for layer in &layers {
        fs::remove_file(&layer.file).with_context(|| layer.file.display().to_string())?;
    }
    written.with_context(|| arguments.out.display().to_string())
}

/// Compresses a layer into a file.
fn layer(file: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<Layer> {
    let name = || file.display().to_string();
    let stored = Hashed::new(BufWriter::new(File::create(file).with_context(name)?));
    let mut plain = Hashed::new(GzBuilder::new().write(stored, Compression::default()));
    fill(&mut plain)?;
    let (gz, diff_id, _) = plain.finish();
    let (mut out, digest, size) = gz.finish()?.finish();
    out.flush()?;
    Ok(Layer {
        file: file.to_owned(),
        diff_id,
        digest,
        size,
    })
}

fn write(arguments: &Arguments, layers: &[Layer; 2]) -> Result<()> {
    let text = fs::read_to_string(&arguments.config);
    let text = text.with_context(|| arguments.config.display().to_string())?;
    let own: Value =
        serde_json::from_str(&text).with_context(|| arguments.config.display().to_string())?;
    let made_by = ["Debian's packages", "HLX"];
    let history = made_by.map(|by| json!({ "created": arguments.created, "created_by": by }));
    let config = json!({
        "created": arguments.created,
        "architecture": arguments.architecture,
        "os": "linux",
        "config": own,
        "rootfs": { "type": "layers", "diff_ids": layers.each_ref().map(|layer| named(&layer.diff_id)) },
        "history": history,
    });
    let config = serde_json::to_vec(&config)?;
    let stored = layers
        .each_ref()
        .map(|layer| described(LAYER, &layer.digest, layer.size));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(CONFIG, &sha256(&config), config.len() as u64),
        "layers": stored,
    });
    let manifest = serde_json::to_vec(&manifest)?;
    let mut entry = described(MANIFEST, &sha256(&manifest), manifest.len() as u64);
    entry["platform"] = json!({ "architecture": arguments.architecture, "os": "linux" });
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": arguments.name });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
    let layout = json!({ "imageLayoutVersion": "1.0.0" });
    let mut archive = Builder::new(BufWriter::new(File::create(&arguments.out)?));
    let blob = |digest: &str| format!("blobs/sha256/{digest}");
    tarball::append(
        &mut archive,
        "oci-layout",
        &serde_json::to_vec(&layout)?,
        arguments.epoch,
    )?;
    tarball::append(
        &mut archive,
        "index.json",
        &serde_json::to_vec(&index)?,
        arguments.epoch,
    )?;
    tarball::append(
        &mut archive,
        &blob(&sha256(&manifest)),
        &manifest,
        arguments.epoch,
    )?;
    tarball::append(
        &mut archive,
        &blob(&sha256(&config)),
        &config,
        arguments.epoch,
    )?;
    for layer in layers {
        let mut header =
            tarball::header(tar::EntryType::Regular, 0o644, layer.size, arguments.epoch)?;
        archive.append_data(&mut header, blob(&layer.digest), File::open(&layer.file)?)?;
    }
    archive.into_inner()?.flush()?;
    Ok(())
}

fn named(digest: &str) -> String {
    format!("sha256:{digest}")
}

fn described(kind: &str, digest: &str, size: u64) -> Value {
    json!({ "mediaType": kind, "digest": named(digest), "size": size })
}

#[cfg(test)]
mod tests {
    use super::{Arguments, run};
    use crate::unpack;
    use std::fs;

    #[test]
    fn an_archive_is_unpacked_to_its_layers_and_has_the_same_bytes_twice() {
        let folder = std::env::temp_dir().join(format!("release-image-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let place = |name: &str| folder.join(name);
        fs::write(place("program"), "of HLX").expect("written");
        fs::write(place("release"), "Debian").expect("written");
        let base = [crate::entries::Entry {
            mode: 0o644,
            name: "etc/release".into(),
            source: place("release"),
        }];
        let base_file = fs::File::create(place("base.tar")).expect("made");
        crate::tarball::write(&base, base_file, 1).expect("packed");
        fs::write(
            place("list"),
            format!("755\tusr/bin/hlx\t{}\n", place("program").display()),
        )
        .expect("written");
        fs::write(place("config.json"), r#"{"Entrypoint": ["hlx"]}"#).expect("written");
        let make = |out: &str| {
            let made = run(&Arguments {
                base: place("base.tar"),
                list: place("list"),
                config: place("config.json"),
                architecture: "amd64".into(),
                name: "hlx:0".into(),
                epoch: 1,
                created: "1970-01-01T00:00:01Z".into(),
                out: place(out),
            });
            made.expect("made");
            fs::read(place(out)).expect("read")
        };
        let bytes = make("one.oci.tar");
        assert_eq!(bytes, make("two.oci.tar"));
        unpack::run(&place("one.oci.tar"), &place("root")).expect("unpacked");
        assert_eq!(
            fs::read_to_string(place("root/usr/bin/hlx")).expect("read"),
            "of HLX"
        );
        assert_eq!(
            fs::read_to_string(place("root/etc/release")).expect("read"),
            "Debian"
        );
        // A byte of a layer that changed is found.
        let mut damaged = bytes;
        let at = damaged.len() - 2048;
        let at = (0..at).rev().find(|&at| damaged[at] != 0).expect("a byte");
        damaged[at] ^= 1;
        fs::write(place("damaged.tar"), damaged).expect("written");
        let error = unpack::run(&place("damaged.tar"), &place("other")).expect_err("refused");
        assert!(format!("{error:#}").contains("digest"), "{error:#}");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
