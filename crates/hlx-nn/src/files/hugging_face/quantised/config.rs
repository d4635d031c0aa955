//! `quantization_config` of a folder's `config.json`.

use serde_json::{Map, Value};

use super::packed::Layout;

/// How the matrices of a folder are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Integers of 4 bits in words, with a scale and a zero per group: GPTQ and AWQ.
    Packed(Layout),
    /// Entries of a table, with a scale per block: NF4 of bitsandbytes.
    Nf4,
}

/// Takes `quantization_config` out of a configuration, if it is one of those that are read; all others are left for the
/// configuration's reader to refuse.
///
/// # Errors
/// A statement that is not supported, by its name, as the end of a sentence.
pub fn take_scheme(config: &[u8]) -> Result<Option<(Scheme, Vec<u8>)>, String> {
    let Ok(Value::Object(mut all)) = serde_json::from_slice::<Value>(config) else {
        return Ok(None);
    };
    let Some(stated) = all.get("quantization_config").and_then(Value::as_object) else {
        return Ok(None);
    };
    let stated = Stated(stated);
    let scheme = match stated.0.get("quant_method").and_then(Value::as_str) {
        Some("gptq") => stated.gptq()?,
        Some("awq") => stated.awq()?,
        Some("bitsandbytes") => stated.bitsandbytes()?,
        _ => return Ok(None),
    };
    all.remove("quantization_config");
    let rest = serde_json::to_vec(&Value::Object(all)).map_err(|error| error.to_string())?;
    Ok(Some((scheme, rest)))
}

/// The statements.
struct Stated<'a>(&'a Map<String, Value>);

impl Stated<'_> {
    fn wrong(name: &str, value: &Value, expected: &str) -> String {
        format!("`quantization_config.{name}` is {value}, and only {expected} is read")
    }

    /// Checks that a statement, if it is there and not null, is one of these.
    fn only(&self, name: &str, known: &[Value], expected: &str) -> Result<(), String> {
        match self.0.get(name).filter(|value| !value.is_null()) {
            Some(value) if !known.contains(value) => Err(Self::wrong(name, value, expected)),
            _ => Ok(()),
        }
    }

    /// Checks that 4 bits are stated, under one of two names.
    fn four_bits(&self) -> Result<(), String> {
        for name in ["bits", "w_bit"] {
            if let Some(value) = self.0.get(name).filter(|value| !value.is_null()) {
                return match value == 4 {
                    true => Ok(()),
                    false => Err(Self::wrong(name, value, "4")),
                };
            }
        }
        Err("`quantization_config.bits` is missing".to_owned())
    }

    /// Integers of GPTQ: in version 1 a zero is stored less 1, in version 2 as it is.
    fn gptq(&self) -> Result<Scheme, String> {
        self.four_bits()?;
        let dynamic = |value: &Value| value.as_object().is_none_or(|rules| !rules.is_empty());
        if let Some(value) = self.0.get("dynamic").filter(|value| !value.is_null())
            && dynamic(value)
        {
            return Err(Self::wrong("dynamic", value, "one kind for all matrices"));
        }
        let name = match self.0.contains_key("checkpoint_format") {
            true => "checkpoint_format",
            false => "format",
        };
        let known = ["gptq".into(), "gptq_v2".into()];
        self.only(name, &known, "gptq or gptq_v2")?;
        let is_second = self.0.get(name) == Some(&"gptq_v2".into());
        Ok(Scheme::Packed(Layout::Gptq {
            zero: u32::from(!is_second),
        }))
    }

    /// Integers of AWQ, in the order of its kernels for matrix products.
    fn awq(&self) -> Result<Scheme, String> {
        self.four_bits()?;
        for name in ["version", "format"] {
            self.only(name, &["gemm".into(), "GEMM".into()], "gemm")?;
        }
        self.only("zero_point", &[true.into()], "true")?;
        Ok(Scheme::Packed(Layout::Awq))
    }

    fn bitsandbytes(&self) -> Result<Scheme, String> {
        let is_four = ["load_in_4bit", "_load_in_4bit"]
            .iter()
            .any(|name| self.0.get(*name) == Some(&true.into()));
        if !is_four {
            let value = self.0.get("load_in_4bit").unwrap_or(&Value::Null);
            return Err(Self::wrong("load_in_4bit", value, "true"));
        }
        // Without a statement it is fp4.
        let kind = self.0.get("bnb_4bit_quant_type").unwrap_or(&Value::Null);
        if kind != "nf4" {
            return Err(Self::wrong("bnb_4bit_quant_type", kind, "nf4"));
        }
        self.only("bnb_4bit_quant_storage", &["uint8".into()], "uint8")?;
        Ok(Scheme::Nf4)
    }
}
