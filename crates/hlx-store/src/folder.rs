//! Where the user's store lies.

use std::ffi::OsString;
use std::path::PathBuf;

use super::StoreError;

/// Where data of a user's programs lies on a kind of system: a variable that names the folder
/// itself, and what to add to the home folder without it.
struct DataFolder {
    own: Option<&'static str>,
    home: Option<(&'static str, &'static str)>,
}

const DATA_FOLDER: DataFolder = if cfg!(windows) {
    DataFolder {
        own: Some("LOCALAPPDATA"),
        home: None,
    }
} else if cfg!(target_os = "macos") {
    DataFolder {
        own: None,
        home: Some(("HOME", "Library/Application Support")),
    }
} else {
    DataFolder {
        own: Some("XDG_DATA_HOME"),
        home: Some(("HOME", ".local/share")),
    }
};

/// Returns the folder that `HLX_STORE` names, else `hlx/store` in the user's data folder. Empty
/// variables count as unset, and so does a relative data folder, as the XDG rules have it.
pub fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, StoreError> {
    let path = |name: &str| {
        let value = variable(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
    if let Some(path) = path("HLX_STORE") {
        return Ok(path);
    }
    let DataFolder { own, home } = DATA_FOLDER;
    let data = own.and_then(absolute).or_else(|| {
        let (name, below) = home?;
        Some(absolute(name)?.join(below))
    });
    let names = own.into_iter().chain(home.map(|(name, _)| name));
    data.map(|data| data.join("hlx").join("store"))
        .ok_or_else(|| StoreError::NoFolder {
            variables: names.collect::<Vec<_>>().join(" or "),
        })
}
