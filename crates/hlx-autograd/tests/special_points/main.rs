//! Values and derivatives where rules differ: at zeros, ties, bounds and equal elements, at large and infinite
//! values, and for arguments without measure. A list of the methods, read from the sources, says what must have a
//! row.

mod extremes;
mod forms;
mod methods;
mod rows;
mod targets;

use std::collections::BTreeMap;

use hlx_autograd::{Result, Tensor};
use hlx_core::Device;
use hlx_core::testing::cpu;
use serde_json::Value;

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/special_points.json"
);

/// Rows with a quotient by 0, a logarithm of 0 or their like, where PyTorch's NaN is HLX's too. Where PyTorch has NaN in
/// any other row, HLX has a finite number.
const POLES: [&str; 3] = ["div", "remainder", "kl_div"];

/// Second derivatives, by row, input and element, that are not PyTorch's but the function's: at its threshold
/// softplus is smooth on the side that has its value there, and d²(a^b)/da db is 1 / a where b is 0.
const OWN: [(&str, usize, usize, f64); 3] = [
    ("softplus_with", 0, 2, 1.889_885_433),
    ("pow, tensors", 1, 3, 16.0),
    ("pow, tensors", 1, 4, 36.522_650_59),
];

/// A row of the fixture.
struct Case {
    inputs: Vec<Tensor>,
    /// The gradients of the inputs, flat.
    first: Vec<Vec<f64>>,
    /// The gradients of the weighted first ones.
    second: Vec<Vec<f64>>,
}

fn numbers(values: &Value) -> Vec<f64> {
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().expect("nan or inf"),
        None => value.as_f64().expect("a number"),
    };
    values
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

fn lists(values: &Value) -> Vec<Vec<f64>> {
    values
        .as_array()
        .expect("lists")
        .iter()
        .map(numbers)
        .collect()
}

fn cases(device: &Device) -> BTreeMap<String, Case> {
    let text = std::fs::read_to_string(PATH).expect("the fixture is there");
    let fixture: Value = serde_json::from_str(&text).expect("JSON");
    let rows = fixture["cases"].as_object().expect("cases");
    let case = |row: &Value| {
        let inputs = lists(&row["shapes"]).into_iter().zip(lists(&row["inputs"]));
        let input = |(shape, values): (Vec<f64>, Vec<f64>)| {
            let shape: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::from_slice(device, &values, &shape).expect("uploads")
        };
        Case {
            inputs: inputs.map(input).collect(),
            first: lists(&row["first"]),
            second: lists(&row["second"]),
        }
    };
    let mut cases: BTreeMap<String, Case> = rows
        .iter()
        .map(|(name, row)| (name.clone(), case(row)))
        .collect();
    for (name, input, place, value) in OWN {
        let case = cases.get_mut(name).expect("a row");
        assert_ne!(case.second[input][place], value, "{name}");
        case.second[input][place] = value;
    }
    cases
}

/// The sum of a tensor's elements, each times its number, counted from 1.
fn counted_sum(x: &Tensor) -> Result<Tensor> {
    let n = x.n_elements();
    let weights = Tensor::arange(x.device(), 1.0, n as f64 + 1.0, 1.0)?;
    x.mul(weights.reshape(x.shape())?)?.sum()
}

/// The gradients of a scalar by leaves, zeros where there is none.
fn gradients(of: &Tensor, by: &[Tensor], recorded: bool) -> Result<Vec<Tensor>> {
    if !of.requires_grad() {
        return by.iter().map(Tensor::zeros_like).collect();
    }
    let leaves: Vec<&Tensor> = by.iter().collect();
    let found = of.gradients(&leaves, recorded)?;
    let all = found.into_iter().zip(by);
    all.map(|(gradient, x)| gradient.map_or_else(|| x.zeros_like(), Ok))
        .collect()
}

/// What differs from the fixture: by name of the derivative, input and element.
fn differences(name: &str, what: &str, found: &[Tensor], want: &[Vec<f64>]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (input, (found, want)) in found.iter().zip(want).enumerate() {
        for (place, (found, &want)) in found.to_vec::<f32>()?.into_iter().zip(want).enumerate() {
            let found = f64::from(found);
            let fits = match want.is_nan() {
                true => found.is_finite() || (found.is_nan() && POLES.contains(&name)),
                false => found == want || (found - want).abs() <= 1e-4 * (1.0 + want.abs()),
            };
            if !fits {
                wrong.push(format!(
                    "{name}: {what} of input {input} is {found} at {place}, expected {want}"
                ));
            }
        }
    }
    Ok(wrong)
}

/// Compares a row's first derivatives, by a plain and by a recorded pass, and its second ones.
fn judged(name: &str, case: &Case, f: rows::Function) -> Result<Vec<String>> {
    let leaves: Vec<Tensor> = case.inputs.iter().map(Tensor::with_gradient).collect();
    let plain = gradients(&counted_sum(&f(&leaves)?)?, &leaves, false)?;
    let mut wrong = differences(name, "the gradient", &plain, &case.first)?;
    let first = gradients(&counted_sum(&f(&leaves)?)?, &leaves, true)?;
    wrong.extend(differences(
        name,
        "the recorded gradient",
        &first,
        &case.first,
    )?);
    let mut total = Tensor::zeros(leaves[0].device(), &[], hlx_autograd::DType::F32)?;
    for (i, gradient) in first.iter().enumerate() {
        total = total.add(counted_sum(gradient)?.mul(i as f32 + 1.0)?)?;
    }
    let second = gradients(&total, &leaves, false)?;
    wrong.extend(differences(
        name,
        "the second derivative",
        &second,
        &case.second,
    )?);
    Ok(wrong)
}

#[test]
fn first_and_second_derivatives_at_special_points_are_those_of_f64() {
    let device = cpu().expect("the CPU device opens");
    let mut cases = cases(&device);
    let mut wrong = Vec::new();
    for &(name, f) in rows::ROWS {
        let case = cases
            .remove(name)
            .unwrap_or_else(|| panic!("{name} is in the fixture"));
        match judged(name, &case, f) {
            Ok(found) => wrong.extend(found),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    wrong.extend(cases.keys().map(|name| format!("{name} has no row")));
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
