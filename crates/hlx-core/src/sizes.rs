//! Sizes of memory, shapes and files, in arithmetic that cannot wrap.
//!
//! A release build wraps where a sum or a product has no place in its type, and a wrapped size passes every check
//! after it. So what comes from outside (arguments of public functions, lengths in the headers of files) is added,
//! multiplied and rounded up by these functions alone. No result is larger than [`LARGEST`]: code after them may
//! count bytes, double, align and add up thousands of sizes in 64 bits.

use crate::error::CoreError;

/// Every allocation starts at a multiple of this many words: 256 bytes, the largest storage
/// buffer alignment that Vulkan allows a device to require.
pub const ALIGNMENT_WORDS: usize = 64;

/// The most words of a buffer and the most elements of a tensor or a view: 2^50, more than any machine's memory holds.
pub const LARGEST: usize = 1 << 50;

/// The sum of sizes, if it is at most [`LARGEST`].
pub fn checked_sum(sizes: impl IntoIterator<Item = usize>) -> Option<usize> {
    let sum = sizes.into_iter().try_fold(0_usize, usize::checked_add);
    sum.filter(|&sum| sum <= LARGEST)
}

/// The product of sizes, if it is at most [`LARGEST`]; 0 if one of them is 0, however large the others are.
pub fn checked_product(sizes: impl IntoIterator<Item = usize> + Clone) -> Option<usize> {
    if sizes.clone().into_iter().any(|size| size == 0) {
        return Some(0);
    }
    let product = sizes.into_iter().try_fold(1_usize, usize::checked_mul);
    product.filter(|&product| product <= LARGEST)
}

/// The elements of a shape, if it is one that memory may hold: the product of all extents other than 0 must be at most
/// [`LARGEST`], also where one is 0. So no product of some of the extents, in any order, wraps either, and no stride.
pub fn checked_elements(shape: &[usize]) -> Option<usize> {
    let others = shape.iter().copied().filter(|&extent| extent != 0);
    let product = checked_product(others)?;
    Some(if shape.contains(&0) { 0 } else { product })
}

/// The sum of sizes.
///
/// # Errors
/// [`CoreError::Invalid`] with the operation's name and the sizes, if the sum is larger than [`LARGEST`].
pub fn sum(operation: &str, sizes: &[usize]) -> Result<usize, CoreError> {
    let sum = checked_sum(sizes.iter().copied());
    sum.ok_or_else(|| too_large(operation, sizes, " + "))
}

/// The product of sizes; 0 if one of them is 0.
///
/// # Errors
/// [`CoreError::Invalid`] with the operation's name and the sizes, if the product is larger than [`LARGEST`].
pub fn product(operation: &str, sizes: &[usize]) -> Result<usize, CoreError> {
    let product = checked_product(sizes.iter().copied());
    product.ok_or_else(|| too_large(operation, sizes, " x "))
}

/// The elements of a shape, as [`checked_elements`].
///
/// # Errors
/// [`CoreError::Invalid`] with the operation's name and the extents, if no memory may hold it.
pub fn elements(operation: &str, shape: &[usize]) -> Result<usize, CoreError> {
    checked_elements(shape).ok_or_else(|| too_large(operation, shape, " x "))
}

/// A size as a number of 32 bits, which is what shaders count in.
///
/// # Errors
/// [`CoreError::Invalid`] with the operation's name and the size's, if it has more bits.
pub fn as_u32(operation: &str, name: &str, size: usize) -> Result<u32, CoreError> {
    u32::try_from(size).map_err(|_| {
        let reason = format!("{name} is {size}, expected at most {}", u32::MAX);
        CoreError::invalid(operation, reason)
    })
}

/// Rounds a length in words up to the unit of allocations, [`ALIGNMENT_WORDS`]. The last lengths of all, for which there
/// is no multiple above, become the largest multiple: no memory holds either.
pub const fn align_words(len: usize) -> usize {
    match len.checked_next_multiple_of(ALIGNMENT_WORDS) {
        Some(words) => words,
        None => usize::MAX / ALIGNMENT_WORDS * ALIGNMENT_WORDS,
    }
}

fn too_large(operation: &str, sizes: &[usize], sign: &str) -> CoreError {
    const SHOWN: usize = 8;
    let shown: Vec<String> = sizes.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if sizes.len() > SHOWN { " .." } else { "" };
    let reason = format!(
        "{}{more} is more than any memory holds ({LARGEST})",
        shown.join(sign)
    );
    CoreError::invalid(operation, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes at which sums, products and roundings of 64 bits wrap.
    const WRAPPING: [usize; 6] = [
        usize::MAX,
        usize::MAX - 62,
        usize::MAX / 2 + 1,
        usize::MAX / 4 + 1,
        1 << 32,
        LARGEST,
    ];

    #[test]
    fn no_sum_or_product_wraps() {
        for a in WRAPPING {
            for b in WRAPPING {
                let (a_wide, b_wide) = (a as u128, b as u128);
                let fits = |exact: u128| usize::try_from(exact).ok().filter(|&x| x <= LARGEST);
                assert_eq!(checked_sum([a, b]), fits(a_wide + b_wide));
                assert_eq!(checked_product([a, b]), fits(a_wide * b_wide));
                assert_eq!(checked_product([a, b, 0]), Some(0));
            }
        }
        assert_eq!(checked_elements(&[0, 1 << 63, 2]), None);
        assert_eq!(checked_elements(&[0, 1 << 49, 2]), Some(0));
        assert_eq!(checked_elements(&[1 << 49, 2]), Some(1 << 50));
        assert_eq!(checked_elements(&[]), Some(1));
        assert_eq!(sum("s", &[1, 2, 3]).expect("small"), 6);
        assert_eq!(product("p", &[]).expect("small"), 1);
        let error = product("repeat", &[1 << 32, 1 << 32]).expect_err("2^64");
        assert_eq!(
            error.to_string(),
            "repeat: 4294967296 x 4294967296 is more than any memory holds (1125899906842624)"
        );
    }

    #[test]
    fn rounding_up_never_wraps() {
        assert_eq!([0, 1, 64, 65].map(align_words), [0, 64, 64, 128]);
        for len in WRAPPING {
            assert!(align_words(len) >= LARGEST.min(len), "{len}");
        }
        assert!(as_u32("o", "rows", 1 << 32).is_err());
    }
}
