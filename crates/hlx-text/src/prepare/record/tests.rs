//! Layouts of records.

use super::*;

fn read(json: &str, has_template: bool) -> Result<Read, String> {
    Read::parse(json, has_template)
}
