//! Upper bounds of the sizes in configuration files: far above what any device holds, and far below what
//! overflows a product of them. A number past one comes from a damaged or a hostile file.

/// The largest width, vocabulary or number of positions.
pub(crate) const MAX_SIZE: usize = 1 << 24;

/// The most layers of a model.
pub(crate) const MAX_LAYERS: usize = 1 << 14;

/// The most attention heads of a layer.
pub(crate) const MAX_HEADS: usize = 1 << 16;

/// The most experts of a model, those of all its layers together: each is a few parameters with names.
pub(crate) const MAX_EXPERTS: usize = 1 << 18;

/// The most parameters of a model: their bytes still fit into 64 bits.
pub(crate) const MAX_PARAMETERS: u128 = 1 << 50;

/// Fails for the first size that is 0 or more than its bound.
pub(crate) fn check_sizes(sizes: &[(&str, usize, usize)]) -> Result<(), String> {
    for &(name, size, most) in sizes {
        if size == 0 {
            return Err(format!("{name} is 0, expected at least 1"));
        }
        if size > most {
            return Err(format!("{name} is {size}, expected at most {most}"));
        }
    }
    Ok(())
}

/// Fails for more parameters than a model may have: the sum of products of sizes.
pub(crate) fn check_parameters(products: &[&[usize]]) -> Result<(), String> {
    let product = |sizes: &&[usize]| {
        let sizes = sizes.iter().map(|&size| size as u128);
        sizes.fold(1_u128, u128::saturating_mul)
    };
    let count = products.iter().map(product).fold(0, u128::saturating_add);
    match count > MAX_PARAMETERS {
        true => Err(format!(
            "the sizes make about {count} parameters, expected at most {MAX_PARAMETERS}"
        )),
        false => Ok(()),
    }
}
