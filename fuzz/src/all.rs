//! All fuzz targets in one program: `HLX_FUZZ_TARGET=spirv` chooses one.
#![no_main]

use std::sync::OnceLock;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static BODY: OnceLock<fn(&[u8])> = OnceLock::new();
    let body = BODY.get_or_init(|| {
        let name = std::env::var("HLX_FUZZ_TARGET").unwrap_or_default();
        fuzz_targets::target(&name).unwrap_or_else(|| {
            let names = fuzz_targets::TARGETS.map(|(name, _)| name);
            panic!("HLX_FUZZ_TARGET is `{name}`, expected one of {names:?}")
        })
    });
    body(data);
});
