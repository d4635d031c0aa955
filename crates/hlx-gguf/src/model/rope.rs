//! Rotary positions: their scaling, by keys or by the factors of `rope_freqs.weight`.

use serde_json::{Value as Json, json};

use super::keys::Keys;

/// Llama 3's scalings begin and end at these parts of the original positions.
const LOW: f64 = 1.0;
const HIGH: f64 = 4.0;
/// The original positions that a model with this scaling has.
const ORIGINAL: f64 = 8192.0;
/// Between a file's factors, computed in f32, and the formula's.
const TOLERANCE: f64 = 1e-5;

/// The `rope_scaling` of keys; null for none.
pub(super) fn scaling_of(keys: &Keys<'_>) -> Result<Json, String> {
    let kind = keys.text("rope.scaling.type")?;
    let factor = keys.number("rope.scaling.factor")?;
    let older = keys.number("rope.scale_linear")?;
    let original = keys.count("rope.scaling.original_context_length")?;
    for name in ["attn_factor", "yarn_attn_factor", "yarn_ext_factor"] {
        let name = format!("rope.scaling.{name}");
        if let Some(found) = keys.number(&name)?.filter(|&found| found != 1.0) {
            return Err(format!("`{name}` is {found}, and only 1 is known here"));
        }
    }
    let [fast, slow] = ["yarn_beta_fast", "yarn_beta_slow"]
        .map(|name| keys.number(&format!("rope.scaling.{name}")));
    let (fast, slow) = (fast?, slow?);
    let factor = factor.or(older).filter(|&factor| factor != 0.0);
    match kind.unwrap_or("linear") {
        "none" => Ok(Json::Null),
        "linear" => Ok(match factor.filter(|&factor| factor != 1.0) {
            Some(factor) => json!({"rope_type": "linear", "factor": factor}),
            None => Json::Null,
        }),
        "yarn" => {
            let factor = factor.ok_or("`rope.scaling.factor` is missing for yarn")?;
            let mut scaling = json!({"rope_type": "yarn", "factor": factor});
            let numbers = [
                ("beta_fast", fast.map(Json::from)),
                ("beta_slow", slow.map(Json::from)),
                ("original_max_position_embeddings", original.map(Json::from)),
            ];
            for (name, value) in numbers {
                if let Some(value) = value {
                    scaling[name] = value;
                }
            }
            Ok(scaling)
        }
        other => Err(format!(
            "`rope.scaling.type` is {}, expected none, linear or yarn",
            crate::error::shown(other)
        )),
    }
}

/// The `rope_scaling` of the factors that divide the frequencies: Llama 3's where its formula gives them, else
/// `longrope`, which states them one by one.
///
/// `theta` is the base, and `positions` what the model has.
pub(super) fn scaling_of_factors(
    factors: &[f32],
    theta: f64,
    positions: usize,
) -> Result<Json, String> {
    let wrong = factors
        .iter()
        .find(|factor| !(factor.is_finite() && **factor > 0.0));
    if let Some(wrong) = wrong {
        return Err(format!("`rope_freqs.weight` has the factor {wrong}"));
    }
    if factors.iter().all(|&factor| factor == 1.0) {
        return Ok(Json::Null);
    }
    let factor = factors
        .iter()
        .fold(0.0, |most: f32, &factor| most.max(factor));
    if is_llama3(factors, f64::from(factor), theta) {
        return Ok(json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": LOW, "high_freq_factor": HIGH,
            "original_max_position_embeddings": ORIGINAL as usize,
        }));
    }
    Ok(json!({
        "rope_type": "longrope", "factor": 1.0, "attention_factor": 1.0,
        "original_max_position_embeddings": positions,
        "short_factor": factors, "long_factor": factors,
    }))
}

fn is_llama3(factors: &[f32], factor: f64, theta: f64) -> bool {
    let expected = llama3_factors(factors.len(), theta, factor, [LOW, HIGH], ORIGINAL);
    let mut both = factors.iter().zip(expected);
    both.all(|(&found, expected)| {
        let (found, expected) = (f64::from(found), f64::from(expected));
        (found - expected).abs() <= TOLERANCE * expected
    })
}

/// What Llama 3's scaling divides each of n frequencies by: 1 for short waves, `factor` for long ones, and between
/// these a mean of both.
pub(super) fn llama3_factors(
    n: usize,
    theta: f64,
    factor: f64,
    [low, high]: [f64; 2],
    original: f64,
) -> Vec<f32> {
    let step = root(theta, n);
    let mut wavelength = std::f64::consts::TAU;
    let mut factors = Vec::with_capacity(n);
    for _ in 0..n {
        factors.push(match wavelength {
            short if short < original / high => 1.0,
            long if long > original / low => factor as f32,
            between => {
                let smooth = (original / between - low) / (high - low);
                (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
            }
        });
        wavelength *= step;
    }
    factors
}

/// The n-th root of a number of at least 1, by halving: products alone, equal everywhere.
fn root(number: f64, n: usize) -> f64 {
    let power = |base: f64| (0..n).fold(1.0, |product, _| product * base);
    let (mut low, mut high) = (1.0, number.max(1.0));
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        match power(middle) > number {
            true => high = middle,
            false => low = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_of_llama_3_are_recognised_and_others_stated() {
        // Those of a Llama 3.1 with heads of 128.
        let factors = llama3_factors(64, 500_000.0, 8.0, [LOW, HIGH], ORIGINAL);
        let between = factors
            .iter()
            .filter(|&&factor| factor > 1.0 && factor < 8.0);
        assert_eq!(between.count(), 6);
        let found = scaling_of_factors(&factors, 500_000.0, 131_072).expect("a scaling");
        assert_eq!(
            (&found["rope_type"], &found["factor"]),
            (&json!("llama3"), &json!(8.0))
        );
        let mut other = factors.clone();
        other[40] *= 1.01;
        let found = scaling_of_factors(&other, 500_000.0, 131_072).expect("a scaling");
        assert_eq!(found["rope_type"], "longrope");
        assert_eq!(found["long_factor"].as_array().map(Vec::len), Some(64));
        assert_eq!(scaling_of_factors(&[1.0; 4], 1e4, 64), Ok(Json::Null));
        assert!(scaling_of_factors(&[f32::NAN], 1e4, 64).is_err());
    }

    #[test]
    fn a_root_is_one() {
        assert!((root(1e6, 3) - 100.0).abs() < 1e-10);
        assert!((root(10_000.0, 64) - 1.154_781_984_689_458).abs() < 1e-12);
    }
}
