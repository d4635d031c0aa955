//! Sums of products by the letters of their indices (`torch.einsum`).
//!
//! Each product of two operands becomes one batched matrix product: indices of both and of the result
//! are the batch, those of both alone are summed, and the others are rows and columns.

use super::frame::promoted;
use crate::{AutogradError, DType, Result, Tensor};

/// A tensor with a letter for each dimension. Broadcast dimensions have digits, from the last: `0`.
struct Labelled {
    tensor: Tensor,
    labels: Vec<char>,
}

fn refused(reason: String) -> AutogradError {
    AutogradError::Argument {
        op: "einsum",
        reason,
    }
}

pub(super) fn einsum(expression: &str, operands: &[&Tensor]) -> Result<Tensor> {
    if let [first, others @ ..] = operands
        && first.is_half()
        && !others.is_empty()
        && others.iter().all(|x| x.dtype() == first.dtype())
    {
        // Products and sums on the way are not rounded.
        let wide = operands.iter().map(|x| x.to_dtype(DType::F32));
        let wide = wide.collect::<Result<Vec<Tensor>>>()?;
        let product = einsum(expression, &wide.iter().collect::<Vec<_>>())?;
        return product.to_dtype(first.dtype());
    }
    let expression: String = expression.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match expression.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (expression.as_str(), None),
    };
    let inputs: Vec<&str> = inputs.split(',').collect();
    if inputs.len() != operands.len() || operands.is_empty() {
        let (found, expected) = (operands.len(), inputs.len());
        return Err(refused(format!(
            "{found} operands, expected {expected} by `{expression}`"
        )));
    }
    let labelled = inputs.iter().zip(operands).map(|(text, x)| labels(text, x));
    let mut labelled = labelled.collect::<Result<Vec<_>>>()?;
    check_extents(&labelled)?;
    let output = output_labels(output, &labelled)?;
    for operand in &mut labelled {
        *operand = diagonals(operand)?;
    }
    let mut rest = labelled.into_iter();
    // There is at least one.
    let Some(mut product) = rest.next() else {
        return Err(refused("no operands".to_owned()));
    };
    let mut rest: Vec<Labelled> = rest.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        let wanted = |label: char| {
            output.contains(&label) || rest.iter().any(|other| other.labels.contains(&label))
        };
        let product_only = |label: char| wanted(label) || next.labels.contains(&label);
        product = summed(&product, product_only)?;
        let next_only = |label: char| wanted(label) || product.labels.contains(&label);
        let next = summed(&next, next_only)?;
        product = multiplied(&product, &next, wanted)?;
    }
    let product = summed(&product, |label| output.contains(&label))?;
    let order = |label: &char| {
        let place = product.labels.iter().position(|other| other == label);
        place.map(|place| place as isize)
    };
    let order: Option<Vec<isize>> = output.iter().map(order).collect();
    let order =
        order.ok_or_else(|| refused(format!("no operand has an index of `{expression}`")))?;
    product.tensor.permute(&order)
}

/// The labels of an operand; `...` becomes digits, counted from the last broadcast dimension.
fn labels(text: &str, x: &Tensor) -> Result<Labelled> {
    let wrong = || {
        refused(format!(
            "`{text}` does not name the dimensions of shape {:?}",
            x.shape()
        ))
    };
    let letters = |text: &str| -> Result<Vec<char>> {
        match text.chars().all(|c| c.is_ascii_alphabetic()) {
            true => Ok(text.chars().collect()),
            false => Err(wrong()),
        }
    };
    let labels = match text.split_once("...") {
        None => letters(text)?,
        Some((before, after)) => {
            let (before, after) = (letters(before)?, letters(after)?);
            let count = x
                .rank()
                .checked_sub(before.len() + after.len())
                .ok_or_else(wrong)?;
            let digits = (0..count as u32)
                .rev()
                .filter_map(|digit| char::from_digit(digit, 10));
            before.into_iter().chain(digits).chain(after).collect()
        }
    };
    match labels.len() == x.rank() {
        true => Ok(Labelled {
            tensor: x.clone(),
            labels,
        }),
        false => Err(wrong()),
    }
}

/// Checks that an index has one extent wherever it occurs; 1 broadcasts.
fn check_extents(operands: &[Labelled]) -> Result<()> {
    let all = operands
        .iter()
        .flat_map(|x| x.labels.iter().zip(x.tensor.shape()));
    let mut seen: Vec<(char, usize)> = Vec::new();
    for (&label, &extent) in all {
        match seen.iter_mut().find(|(other, _)| *other == label) {
            None => seen.push((label, extent)),
            Some((_, known)) if *known == extent || extent == 1 => {}
            Some((_, known)) if *known == 1 => *known = extent,
            Some((_, known)) => {
                return Err(refused(format!(
                    "index {label} has extents {known} and {extent}"
                )));
            }
        }
    }
    Ok(())
}

/// The indices of the result: as written, or those that occur once, in alphabetical order.
fn output_labels(text: Option<&str>, operands: &[Labelled]) -> Result<Vec<char>> {
    let all: Vec<char> = operands
        .iter()
        .flat_map(|x| x.labels.iter().copied())
        .collect();
    let mut digits: Vec<char> = all.iter().copied().filter(char::is_ascii_digit).collect();
    digits.sort_unstable_by(|a, b| b.cmp(a));
    digits.dedup();
    let Some(text) = text else {
        let once = |label: &char| all.iter().filter(|other| *other == label).count() == 1;
        let letters = all
            .iter()
            .copied()
            .filter(|l| l.is_ascii_alphabetic())
            .filter(once);
        let mut letters: Vec<char> = letters.collect();
        letters.sort_unstable();
        return Ok([digits, letters].concat());
    };
    let labels: Vec<char> = match text.split_once("...") {
        None => text.chars().collect(),
        Some((before, after)) => before.chars().chain(digits).chain(after.chars()).collect(),
    };
    for (place, label) in labels.iter().enumerate() {
        if labels[..place].contains(label) || !all.contains(label) {
            return Err(refused(format!(
                "the result's index {label} occurs twice or in no operand"
            )));
        }
    }
    Ok(labels)
}

/// Takes the diagonal of dimensions with one label.
fn diagonals(operand: &Labelled) -> Result<Labelled> {
    let (mut tensor, mut labels) = (operand.tensor.clone(), operand.labels.clone());
    let twice = |labels: &[char]| {
        (0..labels.len()).find_map(|second| {
            let first = labels[..second]
                .iter()
                .position(|label| *label == labels[second])?;
            Some((first, second))
        })
    };
    while let Some((first, second)) = twice(&labels) {
        tensor = tensor.diagonal(0, first as isize, second as isize)?;
        let label = labels.remove(second);
        labels.remove(first);
        labels.push(label);
    }
    Ok(Labelled { tensor, labels })
}

/// Sums over the indices that are not wanted.
fn summed(operand: &Labelled, wanted: impl Fn(char) -> bool) -> Result<Labelled> {
    let places = (0..operand.labels.len()).filter(|&place| !wanted(operand.labels[place]));
    let dims: Vec<isize> = places.map(|place| place as isize).collect();
    let labels = operand
        .labels
        .iter()
        .copied()
        .filter(|&label| wanted(label));
    Ok(Labelled {
        tensor: match dims.is_empty() {
            true => operand.tensor.clone(),
            false => operand.tensor.sum_dim(&dims, false)?,
        },
        labels: labels.collect(),
    })
}

/// Multiplies two operands, and sums over their common indices that are not wanted.
fn multiplied(a: &Labelled, b: &Labelled, wanted: impl Fn(char) -> bool) -> Result<Labelled> {
    let of = |x: &Labelled, wanted: &dyn Fn(char) -> bool| -> Vec<char> {
        x.labels
            .iter()
            .copied()
            .filter(|&label| wanted(label))
            .collect()
    };
    let extent = |label: char| {
        let of = |x: &Labelled| {
            let place = x.labels.iter().position(|other| *other == label)?;
            Some(x.tensor.shape()[place])
        };
        of(a).unwrap_or(1).max(of(b).unwrap_or(1))
    };
    let batch = of(a, &|label| b.labels.contains(&label) && wanted(label));
    let inner = of(a, &|label| b.labels.contains(&label) && !wanted(label));
    let rows = of(a, &|label| !b.labels.contains(&label));
    let cols = of(b, &|label| !a.labels.contains(&label));
    let mut left = grouped(a, [&batch, &rows, &inner], &extent)?;
    let mut right = grouped(b, [&batch, &inner, &cols], &extent)?;
    if left.dtype().is_integer() && right.dtype().is_integer() {
        // Integers are brought to their common type before they are multiplied.
        let dtype = promoted(&left, &right);
        (left, right) = (left.to_dtype(dtype)?, right.to_dtype(dtype)?);
    }
    let product = left.matmul(&right)?;
    let labels = [batch, rows, cols].concat();
    let shape: Vec<usize> = labels.iter().map(|&label| extent(label)).collect();
    Ok(Labelled {
        tensor: product.reshape(&shape)?,
        labels,
    })
}

/// Orders an operand's dimensions by groups and makes each group one dimension.
fn grouped(
    x: &Labelled,
    groups: [&Vec<char>; 3],
    extent: &impl Fn(char) -> usize,
) -> Result<Tensor> {
    let labels = groups.into_iter().flatten();
    let place = |label: &char| {
        x.labels
            .iter()
            .position(|other| other == label)
            .unwrap_or(0)
    };
    let order: Vec<isize> = labels.clone().map(|label| place(label) as isize).collect();
    let expanded: Vec<usize> = labels.map(|&label| extent(label)).collect();
    let sizes = groups.map(|group| group.iter().map(|&label| extent(label)).product::<usize>());
    x.tensor.permute(&order)?.expand(&expanded)?.reshape(&sizes)
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn known_sums_of_products() -> crate::Result<()> {
        let (a, b) = (input(1, &[3, 4]), input(2, &[4, 5]));
        let product = Tensor::einsum("ij,jk->ik", &[&a, &b])?;
        assert_eq!(product.to_vec::<f32>()?, a.matmul(&b)?.to_vec::<f32>()?);
        let transposed = Tensor::einsum("ij->ji", &[&a])?;
        assert_eq!(
            transposed.to_vec::<f32>()?,
            a.transpose(0, 1)?.to_vec::<f32>()?
        );
        let square = input(3, &[4, 4]);
        let trace = Tensor::einsum("ii", &[&square])?;
        assert_eq!(
            trace.to_vec::<f32>()?,
            square.diagonal(0, 0, 1)?.sum()?.to_vec::<f32>()?
        );
        let outer = Tensor::einsum("i,j", &[&a.select(0, 0)?, &a.select(1, 0)?])?;
        assert_eq!(outer.shape(), [4, 3]);
        let batch = Tensor::einsum("...ij,...jk->...ik", &[&input(4, &[2, 3, 4]), &b])?;
        assert_eq!(batch.shape(), [2, 3, 5]);
        Ok(())
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = [input(1, &[2, 3]), input(2, &[3, 4]), input(3, &[4, 2])];
        check("einsum", &x, |x| {
            Tensor::einsum("ij,jk,kl->il", &[&x[0], &x[1], &x[2]])
        });
        check("einsum", &x[..2], |x| {
            Tensor::einsum("ij,kl->jl", &[&x[0], &x[1]])
        });
        check("einsum", &[input(4, &[2, 3, 4]), input(5, &[2, 3])], |x| {
            Tensor::einsum("bij,bi->bj", &[&x[0], &x[1]])
        });
    }

    #[test]
    fn wrong_expressions_are_refused() {
        let x = input(1, &[2, 3]);
        for (expression, expected) in [
            (
                "ijk->i",
                "einsum: `ijk` does not name the dimensions of shape [2, 3]",
            ),
            ("ij,jk->ik", "einsum: 1 operands, expected 2 by `ij,jk->ik`"),
            (
                "ij->iz",
                "einsum: the result's index z occurs twice or in no operand",
            ),
            ("ii->i", "einsum: index i has extents 2 and 3"),
        ] {
            assert_eq!(message(Tensor::einsum(expression, &[&x])), expected);
        }
    }

    #[test]
    fn integers_have_the_types_of_products_and_sums() -> crate::Result<()> {
        let device = hlx_core::testing::devices()[0].clone();
        let of = |shape: &[usize]| Tensor::from_slice(&device, &[100_u8, 50, 7, 9], shape);
        let product = Tensor::einsum("ij,jk->ik", &[&of(&[2, 2])?, &of(&[2, 2])?])?;
        // 100 100 + 50 7 is 10,350, 110 modulo 256.
        assert_eq!(product.to_vec::<u8>()?, [110, 74, 251, 175]);
        let sum = Tensor::einsum("ij->", &[&of(&[2, 2])?])?;
        assert_eq!(sum.to_vec::<i32>()?, [166]);
        let both = Tensor::einsum("ij,k->k", &[&of(&[2, 2])?, &of(&[4])?])?;
        assert_eq!(both.to_vec::<i32>()?, [16_600, 8_300, 1_162, 1_494]);
        Ok(())
    }
}
