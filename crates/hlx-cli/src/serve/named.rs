//! The models that are served, as arguments say them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// A model of an argument: `FOLDER`, `NAME=FOLDER`, `FOLDER@DEVICES` or `NAME=FOLDER@DEVICES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The name that requests say.
    pub id: String,
    pub folder: PathBuf,
    /// The devices, if it says some.
    pub devices: Option<Vec<String>>,
}

impl Named {
    /// Reads an argument.
    ///
    /// # Errors
    /// An empty name, and a folder without a name.
    pub fn parse(text: &str) -> Result<Self> {
        let (id, rest) = match text.split_once('=') {
            Some((id, rest)) => (Some(id.to_owned()), rest),
            None => (None, text),
        };
        let parts = rest.rsplit_once('@');
        // Folders may have an @ in their names.
        let parts = parts.filter(|(_, devices)| devices.split(',').all(is_device));
        let (folder, devices) = match parts {
            Some((folder, devices)) => (folder, Some(devices_of(devices))),
            None => (rest, None),
        };
        let folder = PathBuf::from(folder);
        let id = id.map_or_else(|| name_of(&folder), Ok)?;
        ensure!(!id.is_empty(), "{text}: the name is empty");
        Ok(Self {
            id,
            folder,
            devices,
        })
    }
}

/// The devices of a list such as `cpu,vulkan:0`.
pub(crate) fn devices_of(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).map(str::to_owned).collect()
}

/// Whether a text names a device.
fn is_device(text: &str) -> bool {
    let text = text.trim();
    let number = text.strip_prefix("vulkan:");
    matches!(text, "auto" | "cpu" | "vulkan")
        || number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// The name of a folder or a file.
fn name_of(folder: &Path) -> Result<String> {
    let whole = folder
        .canonicalize()
        .with_context(|| folder.display().to_string())?;
    let name = match whole.is_file() {
        // Without the ending of a GGUF file.
        true => whole.file_stem(),
        false => whole.file_name(),
    };
    let name = name.and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{}: has no name; say NAME=FOLDER", folder.display()));
    Ok(name?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_a_name_a_folder_and_devices() {
        let named = |text: &str| {
            let found = Named::parse(text).expect("is read");
            let devices = found.devices.unwrap_or_default().join("+");
            (found.id, found.folder.display().to_string(), devices)
        };
        let is = |id: &str, folder: &str, devices: &str| {
            (id.to_owned(), folder.to_owned(), devices.to_owned())
        };
        assert_eq!(named("a=runs/b"), is("a", "runs/b", ""));
        assert_eq!(named("a=runs/b@cpu"), is("a", "runs/b", "cpu"));
        let two = is("a", "runs/b", "vulkan:0+vulkan:1");
        assert_eq!(named("a=runs/b@vulkan:0,vulkan:1"), two);
        assert_eq!(named("a=b@home/c"), is("a", "b@home/c", ""));
        assert_eq!(named("a=b@home/c@auto"), is("a", "b@home/c", "auto"));
        assert_eq!(named("a=b@gpu"), is("a", "b@gpu", ""));
        let place = std::env::temp_dir();
        let name = name_of(&place).expect("a name");
        let text = format!("{}@cpu", place.display());
        assert_eq!(named(&text), is(&name, &place.display().to_string(), "cpu"));
        for text in ["=runs/b", "no/such/folder"] {
            assert!(Named::parse(text).is_err(), "{text}");
        }
    }
}
