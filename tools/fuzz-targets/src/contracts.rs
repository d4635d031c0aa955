//! SPIR-V and contracts.

use hlx_contract::{Contract, Encoded};
use hlx_spirv::FloatControls;

/// Reads a module in every way that HLX does.
pub fn spirv(data: &[u8]) {
    let _ = hlx_spirv::arithmetic::check("fuzz", data);
    let Ok(words) = hlx_spirv::words(data) else {
        return;
    };
    let _ = hlx_spirv::push_constants(&words);
    let controls = FloatControls {
        preserve_zero_inf_nan: true,
        flush_subnormals: true,
    };
    let controlled = hlx_spirv::with_float_controls(&words, controls);
    let interface = hlx_spirv::interface(&words);
    let Ok(reflection) = hlx_contract::spirv::validate(&words, "main") else {
        return;
    };
    // What the validator accepts, the other readers accept as well, and find the same in it.
    let interface = interface.expect("an interface of a valid module");
    let bindings: Vec<u32> = reflection.bindings.keys().copied().collect();
    let found: Vec<u32> = interface.bindings.iter().copied().collect();
    assert_eq!(bindings, found);
    assert_eq!(
        interface.push_bytes as usize,
        4 * reflection.push_constants.len()
    );
    assert!(hlx_spirv::read(&controlled).is_ok());
    let _ = reflection.workgroup_size(&[]);
    let _ = reflection.shared_bytes(&[(0, 1), (1, u32::MAX)]);
}

/// Reads a contract's JSON form; both forms of what comes back say the same.
pub fn json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(contract) = Contract::from_json(text) {
        both_forms(&contract);
    }
}

/// Reads a contract's binary form.
pub fn binary(data: &[u8]) {
    if let Ok(contract) = Contract::from_bytes(data) {
        both_forms(&contract);
    }
}

fn both_forms(contract: &Contract) {
    let handle = contract.handle().expect("a handle");
    let text = contract.to_json().expect("JSON");
    let again = Contract::from_json(&text).expect("its own JSON");
    assert_eq!(again.handle().expect("a handle"), handle);
    if let Contract::Shader(shader) = contract {
        let _ = hlx_contract::inspect(shader);
        let bytes = shader.to_bytes().expect("an encoding");
        assert_eq!(
            Contract::from_bytes(&bytes)
                .expect("its own bytes")
                .handle()
                .ok(),
            Some(handle)
        );
    }
}
