//! The page at `/`, from which people talk to the models: files that a browser needs nothing besides for.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use crate::error::ApiError;

/// What the page may do: run its own scripts, ask its own server, and make no HTML of a text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

struct File {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($name:literal: $kind:expr,)*) => {
        [$(File { name: $name, kind: $kind, bytes: include_bytes!(concat!("page/", $name)) },)*]
    };
}

static FILES: [File; 22] = files! {
    "index.html": HTML,
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "answers.js": SCRIPT,
    "api.js": SCRIPT,
    "composer.js": SCRIPT,
    "dom.js": SCRIPT,
    "drawers.js": SCRIPT,
    "imports.js": SCRIPT,
    "inline.js": SCRIPT,
    "main.js": SCRIPT,
    "markdown.js": SCRIPT,
    "message.js": SCRIPT,
    "notices.js": SCRIPT,
    "receipts.js": SCRIPT,
    "settings.js": SCRIPT,
    "sidebar.js": SCRIPT,
    "store.js": SCRIPT,
    "theme.js": SCRIPT,
    "thread.js": SCRIPT,
    "tokens.js": SCRIPT,
    "tree.js": SCRIPT,
};

/// The tags by which browsers ask whether their copy of a file is the one that is served.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| FILES.iter().map(tag).collect());

fn tag(file: &File) -> String {
    let digest = Sha256::digest(file.bytes);
    let start = digest.iter().take(16);
    let hex: String = start.map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// The routes of the page: `/`, and its files under `/page/`.
pub fn page<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let first = |headers: HeaderMap| async move { file("index.html", &headers) };
    let other = |Path(name): Path<String>, headers: HeaderMap| async move { file(&name, &headers) };
    Router::new()
        .route("/", get(first))
        .route("/page/{name}", get(other))
}

fn file(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    let at = FILES.iter().position(|file| file.name == name);
    let at = at.ok_or_else(|| {
        let message = format!("the page has no file {name:?}");
        ApiError::new(StatusCode::NOT_FOUND, message).with_code("unknown_url")
    })?;
    let (file, tag) = (&FILES[at], TAGS[at].as_str());
    let common = [
        (header::ETAG, tag),
        // Browsers compare their copy with the tag at each visit, so that a new server shows its own page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    if has(headers, tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    Ok((common, [(header::CONTENT_TYPE, file.kind)], file.bytes).into_response())
}

/// Whether the client has the file of a tag.
fn has(headers: &HeaderMap, tag: &str) -> bool {
    let mut lists = headers.get_all(header::IF_NONE_MATCH).iter();
    lists.any(|list| {
        let mut tags = list.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.any(|one| one == "*" || one.trim_start_matches("W/") == tag)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::FILES;

    /// The words of JavaScript and HTML by which a text would become more than text.
    const DANGEROUS: [&str; 9] = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "createContextualFragment",
        "eval(",
        "new Function",
        "javascript:",
    ];

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_elsewhere() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
        let found = std::fs::read_dir(folder).expect("is there");
        let found = found.map(|entry| entry.expect("is read").file_name());
        let found: BTreeSet<String> = found.map(|name| name.to_string_lossy().into()).collect();
        let served: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(found, served);
        for file in &FILES {
            let text = std::str::from_utf8(file.bytes).expect("is text");
            for word in DANGEROUS {
                assert!(!text.contains(word), "{}: {word}", file.name);
            }
            for part in text.split("from '").skip(1) {
                let (name, _) = part.split_once('\'').expect("ends");
                let name = name.strip_prefix("./").expect("is of the page");
                assert!(served.contains(name), "{}: {name}", file.name);
            }
        }
        let html = std::str::from_utf8(FILES[0].bytes).expect("is text");
        assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains(" on"));
        assert!(!html.contains("http:") && !html.contains("https:"));
    }
}
