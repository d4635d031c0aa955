//! Values in memory as those of a configuration file.

use anyhow::{Result, bail};
use toml::{Table, Value};

/// A value as TOML has it; `key` names it in messages. Whole numbers from 2^63 on, which TOML has not, are texts, as
/// seeds may be.
pub(super) fn of_json(key: &str, json: &serde_json::Value) -> Result<Value> {
    use serde_json::Value as Json;
    let below = |name: &str| match key {
        "" => name.to_owned(),
        key => format!("{key}.{name}"),
    };
    Ok(match json {
        Json::Null => bail!("{key}: has no value; leave the key out"),
        Json::Bool(value) => Value::Boolean(*value),
        Json::String(text) => Value::String(text.clone()),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), ..) => Value::Integer(whole),
            (None, Some(large), _) => Value::String(large.to_string()),
            (None, None, Some(real)) => Value::Float(real),
            (None, None, None) => bail!("{key}: {number} is no number of 64 bits"),
        },
        Json::Array(values) => {
            let values = values.iter().map(|one| of_json(key, one));
            Value::Array(values.collect::<Result<_>>()?)
        }
        Json::Object(members) => {
            let mut table = Table::new();
            for (name, member) in members {
                table.insert(name.clone(), of_json(&below(name), member)?);
            }
            Value::Table(table)
        }
    })
}
