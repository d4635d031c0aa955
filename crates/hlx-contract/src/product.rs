//! Contracts of HLX's own kernels: the matrix product, the sum of two tensors, and examples.

use hlx_core::arith::philox4x32;
use hlx_core::groups_1d;
use hlx_store::{Dtype, Handle, Store};

use super::own::{PRODUCT_SHADER, SUM_SHADER, own_shader};
use super::scalar::Number;
use super::{
    ContractError, Encoded, Input, Kernel, Link, Output, Pipeline, Port, Scalar,
    SpecializationConstant,
};
use hlx_kernels::plain::{PRODUCT_TILE, product_specialization};

/// Elements of a workgroup of the sum.
const SUM_ELEMENTS: u64 = 1024;

fn shader_handle(contract: &str, name: &str) -> Result<Handle, ContractError> {
    let missing = || ContractError::invalid(contract, format!("no shader {name}"));
    own_shader(name).ok_or_else(missing)?.handle()
}

/// Makes the contract of a matrix product, `c = a b + bias`: `a` is \[m, k\], `b` \[k, n\], `bias`
/// \[n\] and `c` \[m, n\], in f32. `sizes` are m, n and k; a pipeline links an input
/// that is `None`.
///
/// Each element is one chain `acc = fma(a, b, acc)` over k = 0, 1, 2, ... that starts at the bias
/// ([`hlx_kernels::product`]).
///
/// # Errors
/// [`ContractError::Invalid`] for a size of 0, or a tensor of 2^32 elements or more.
pub fn product(
    name: &str,
    sizes: [usize; 3],
    [a, b, bias]: [Option<Handle>; 3],
) -> Result<Kernel, ContractError> {
    let [m, n, k] = sizes;
    let wrong = || ContractError::invalid(name, format!("a product of sizes {sizes:?}"));
    let [tile_rows, tile_columns] = PRODUCT_TILE;
    let largest = [(m, k), (k, n), (m, n)].map(|(rows, columns)| rows.checked_mul(columns));
    let fits = largest
        .iter()
        .all(|n| n.is_some_and(|n| n > 0 && n < 1 << 32));
    let workgroups = [
        n.div_ceil(tile_columns) as u32,
        m.div_ceil(tile_rows) as u32,
        1,
    ];
    if !fits || workgroups.iter().any(|&count| count > 65_535) {
        return Err(wrong());
    }
    let constants = product_specialization(m, n, k);
    let constant = |(id, word): (u32, u32)| SpecializationConstant {
        id,
        value: match id {
            5 => Scalar::U32(word),
            _ => Scalar::Bool(word != 0),
        },
    };
    let words = [m, n, k, m * k, k * n, m * n, 0].map(|word| Scalar::U32(word as u32));
    Ok(Kernel {
        contract: Number,
        name: name.to_owned(),
        shader: shader_handle(name, PRODUCT_SHADER)?,
        workgroup_size: [128, 1, 1],
        workgroups,
        specialization: constants.map(constant).to_vec(),
        push_constants: words.into_iter().chain([Scalar::f32(0.0)]).collect(),
        inputs: vec![
            input("a", 0, &[m, k], a),
            input("b", 1, &[k, n], b),
            input("bias", 2, &[n], bias),
        ],
        outputs: vec![output("c", 3, &[m, n])],
    })
}

/// Makes the contract of a sum, `c = a + b`, element by element, in f32. An input that is `None`
/// is left to a pipeline's links.
///
/// # Errors
/// [`ContractError::Invalid`] for a shape without elements, or with 2^32 or more.
pub fn sum(
    name: &str,
    shape: &[usize],
    [a, b]: [Option<Handle>; 2],
) -> Result<Kernel, ContractError> {
    let count = shape
        .iter()
        .try_fold(1_usize, |n, &extent| n.checked_mul(extent));
    let count = count.filter(|&n| n > 0).and_then(|n| u32::try_from(n).ok());
    let wrong = || ContractError::invalid(name, format!("a sum of shape {shape:?}"));
    let count = count.ok_or_else(wrong)?;
    let groups = u64::from(count).div_ceil(SUM_ELEMENTS) as usize;
    let add = SpecializationConstant {
        id: 0,
        value: Scalar::U32(0),
    };
    Ok(Kernel {
        contract: Number,
        name: name.to_owned(),
        shader: shader_handle(name, SUM_SHADER)?,
        workgroup_size: [256, 1, 1],
        workgroups: groups_1d(groups),
        specialization: vec![add],
        push_constants: vec![Scalar::U32(count), Scalar::f32(0.0)],
        inputs: vec![input("a", 0, shape, a), input("b", 1, shape, b)],
        outputs: vec![output("c", 2, shape)],
    })
}

/// Makes an example: a square product of numbers from the counter-based generator,
/// in \[-1, 1), and a bias of zeros. Its tensors, its shader and the contract are put into the
/// store; every machine makes the same.
///
/// # Errors
/// As [`product`], and [`ContractError::Store`].
pub fn product_example(store: &Store, size: usize) -> Result<Kernel, ContractError> {
    let name = format!("product_{size}");
    let shape = [size, size];
    let tensor = |shape: &[usize], values: Vec<u8>| {
        let stored = store.put_tensor(Dtype::F32, shape, &values);
        stored.map(Some).map_err(ContractError::store(&name))
    };
    let a = tensor(&shape, uniform(size * size, 1))?;
    let b = tensor(&shape, uniform(size * size, 2))?;
    let bias = tensor(&[size], vec![0; 4 * size])?;
    let kernel = product(&name, [size; 3], [a, b, bias])?;
    own_shader(PRODUCT_SHADER)
        .map(|shader| shader.put(store))
        .transpose()?;
    kernel.put(store)?;
    Ok(kernel)
}

/// Makes an example of two kernels: the product of [`product_example`], and `a` added to it. What it
/// names is put into the store.
///
/// # Errors
/// As [`product_example`].
pub fn pipeline_example(store: &Store, size: usize) -> Result<Pipeline, ContractError> {
    let first = product_example(store, size)?;
    let a = first.inputs.first().and_then(|input| input.tensor);
    let second = sum("plus_a", &[size, size], [None, a])?;
    let link = Link {
        from: Port::new(0, "c"),
        to: Port::new(1, "a"),
    };
    let name = format!("product_and_sum_{size}");
    let outputs = vec![Port::new(1, "c")];
    let pipeline = Pipeline::new(&name, vec![first, second], vec![link], outputs);
    own_shader(SUM_SHADER)
        .map(|shader| shader.put(store))
        .transpose()?;
    pipeline.put(store)?;
    Ok(pipeline)
}

/// Numbers in \[-1, 1), as bytes: Philox 4x32-10 keyed by a seed, counted by elements.
fn uniform(count: usize, seed: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * count);
    for counter in 0..count.div_ceil(4) {
        let words = philox4x32([counter as u32, 0, 0, 0], [seed, 901]);
        for word in words.iter().take(count - 4 * counter) {
            // 24 bits: exact in f32, and never a subnormal.
            let value = (word >> 8) as f32 / 8_388_608.0 - 1.0;
            bytes.extend_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

fn extents(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&extent| extent as u64).collect()
}

fn input(name: &str, binding: u32, shape: &[usize], tensor: Option<Handle>) -> Input {
    Input {
        name: name.to_owned(),
        binding,
        dtype: Dtype::F32,
        shape: extents(shape),
        tensor,
    }
}

fn output(name: &str, binding: u32, shape: &[usize]) -> Output {
    Output {
        name: name.to_owned(),
        binding,
        dtype: Dtype::F32,
        shape: extents(shape),
    }
}
