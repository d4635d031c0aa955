//! Random programs of element-wise launches: operands of every type that lie in every way, up to 12
//! launches whose operands are earlier results or inputs, and results that are held or dropped.

use hlx_core::{Buffer, CoreError, DType, Device};
use hlx_kernels::elementwise::{Binary, Unary, binary, copy_strided, masked_fill, select, unary};
use hlx_kernels::{KernelError, Layout, Operand};

/// Every type.
const TYPES: [DType; 8] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I32,
    DType::U32,
    DType::I8,
    DType::U8,
    DType::Bool,
];

/// Joint shapes: one dimension, rows of quads and of odd lengths, more than two dimensions.
const SHAPES: [&[usize]; 8] = [
    &[1],
    &[1031],
    &[4100],
    &[9, 12],
    &[33, 7],
    &[3, 5, 8],
    &[2, 3, 4, 5],
    &[6, 1, 11, 2],
];

/// A launch; operands are numbers of values, inputs first.
#[derive(Clone, Debug)]
pub struct ProgramLaunch {
    operation: Operation,
    operands: Vec<usize>,
    out: DType,
    is_held: bool,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Unary(Unary, DType),
    Binary(Binary, DType),
    Select,
    MaskedFill,
    Convert,
}

#[derive(Clone, Debug)]
struct Input {
    dtype: DType,
    /// Elements of the buffer.
    len: usize,
    layout: Layout,
}

/// A program over one joint shape.
#[derive(Clone, Debug)]
pub struct Program {
    seed: u64,
    shape: &'static [usize],
    inputs: Vec<Input>,
    pub steps: Vec<ProgramLaunch>,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

impl Program {
    pub fn random(seed: u64) -> Self {
        let mut random = Random(seed);
        let shape = random.of(&SHAPES);
        let inputs = (0..2 + random.below(3)).map(|number| {
            // One mask at least.
            let dtype = if number == 0 {
                DType::Bool
            } else {
                random.of(&TYPES)
            };
            input(&mut random, dtype, shape)
        });
        let inputs: Vec<Input> = inputs.collect();
        let mut types: Vec<DType> = inputs.iter().map(|input| input.dtype).collect();
        let count = 1 + random.below(12);
        let mut steps = Vec::with_capacity(count);
        for number in 0..count {
            let mut step = random_step(&mut random, &types, inputs.len());
            step.is_held = number + 1 == count || random.below(6) == 0;
            types.push(step.out);
            steps.push(step);
        }
        Self {
            seed,
            shape,
            inputs,
            steps,
        }
    }

    /// The inputs' buffers, with bits of every kind.
    pub fn inputs(&self, device: &Device) -> Result<Vec<Buffer>, CoreError> {
        let mut random = Random(!self.seed);
        let buffers = self.inputs.iter().map(|input| {
            let buffer = device.alloc_typed(input.dtype, input.len)?;
            let words: Vec<u32> = (0..buffer.words())
                .map(|_| random_word(&mut random, input.dtype))
                .collect();
            device.upload_words(&buffer, &words)?;
            Ok(buffer)
        });
        buffers.collect()
    }

    /// Launches the program; returns the results that are held, and drops the others.
    pub fn run(&self, device: &Device, inputs: &[Buffer]) -> Result<Vec<Buffer>, KernelError> {
        let dense = Layout::contiguous(self.shape)?;
        let n = dense.n_elements();
        let mut values: Vec<(Buffer, &Layout)> = Vec::new();
        for (buffer, input) in inputs.iter().zip(&self.inputs) {
            values.push((buffer.clone(), &input.layout));
        }
        for step in &self.steps {
            let out = device.alloc_typed(step.out, n)?;
            let of = |place: usize| {
                let (buffer, layout) = &values[step.operands[place]];
                Operand { buffer, layout }
            };
            match step.operation {
                Operation::Unary(operation, DType::F32) => {
                    unary(device, operation, DType::F32, of(0), [-1.5_f32, 2.25], &out)?;
                }
                Operation::Unary(operation, compute) => {
                    unary(device, operation, compute, of(0), [3_u32, 90], &out)?;
                }
                Operation::Binary(operation, compute) => {
                    binary(device, operation, compute, of(0), of(1), &out)?;
                }
                Operation::Select => select(device, of(0), of(1), of(2), &out)?,
                Operation::MaskedFill => masked_fill(device, of(0), of(1), -2.5, &out)?,
                Operation::Convert => copy_strided(device, of(0), &out)?,
            }
            values.push((out, &dense));
        }
        let held = values.drain(..).skip(inputs.len()).zip(&self.steps);
        Ok(held
            .filter(|(_, step)| step.is_held)
            .map(|((buffer, _), _)| buffer)
            .collect())
    }
}

/// An operand that is dense, or lies otherwise: broadcast, transposed, flipped, every second.
fn input(random: &mut Random, dtype: DType, shape: &[usize]) -> Input {
    let rank = shape.len();
    let axis = random.below(rank);
    let dense = |shape: &[usize]| Layout::contiguous(shape).expect("a shape");
    let layout = match random.below(7) {
        0 => {
            let mut small = shape.to_vec();
            small[axis] = 1;
            dense(&small)
        }
        1 => dense(&[1]),
        2 => dense(&shape[rank - 1..]),
        3 => {
            let order: Vec<usize> = (0..rank).rev().collect();
            let reversed: Vec<usize> = shape.iter().rev().copied().collect();
            dense(&reversed).permute(&order).expect("a permutation")
        }
        4 => dense(shape).flip(axis).expect("flipped"),
        5 => {
            let mut wide = shape.to_vec();
            wide[axis] = 2 * shape[axis] + 1;
            let end = wide[axis];
            dense(&wide).slice(axis, (1, end, 2)).expect("a slice")
        }
        _ => dense(shape),
    };
    // A whole buffer: what a layout spans, from the first element on.
    let layout = layout.expand(shape).expect("a broadcast shape");
    let len = layout.span().1;
    Input { dtype, len, layout }
}

/// A step that there is; its operands are rather the last results.
fn random_step(random: &mut Random, types: &[DType], inputs: usize) -> ProgramLaunch {
    loop {
        let value = |random: &mut Random| match types.len() > inputs && random.below(4) > 0 {
            true => types.len() - 1 - random.below((types.len() - inputs).min(2)),
            false => random.below(types.len()),
        };
        let operands: Vec<usize> = (0..3).map(|_| value(random)).collect();
        if let Some(step) = step_over(random, types, operands) {
            return step;
        }
    }
}

fn step_over(random: &mut Random, types: &[DType], operands: Vec<usize>) -> Option<ProgramLaunch> {
    let dtype = |place: usize| types[operands[place]];
    let step = |operation, count: usize, out| ProgramLaunch {
        operation,
        operands: operands[..count].to_vec(),
        out,
        is_held: false,
    };
    let floats = [DType::F32, DType::F16, DType::BF16];
    let whole = [DType::I32, DType::U32, DType::I8, DType::U8];
    let any_float = |count: usize| (0..count).any(|place| dtype(place).is_float());
    let compute_of = |random: &mut Random, count: usize| match any_float(count) {
        true => DType::F32,
        false => random.of(&[DType::F32, DType::I32, DType::U32]),
    };
    match random.below(10) {
        0..4 => {
            let operation = random.of(Unary::ALL);
            let compute = compute_of(random, 1);
            let out = match (operation.is_bool(), compute) {
                (true, _) => DType::Bool,
                (false, DType::F32) => random.of(&floats),
                (false, _) => random.of(&whole),
            };
            let operation_of = Operation::Unary(operation, compute);
            operation
                .is_defined(compute)
                .then(|| step(operation_of, 1, out))
        }
        4..8 => {
            let operation = random.of(Binary::ALL);
            let compute = compute_of(random, 2);
            let out = match (operation.is_bool(), compute) {
                (true, _) => DType::Bool,
                (false, DType::F32) => random.of(&floats),
                (false, _) => random.of(&whole),
            };
            let operation_of = Operation::Binary(operation, compute);
            operation
                .is_defined(compute)
                .then(|| step(operation_of, 2, out))
        }
        8 if dtype(0) == DType::Bool => {
            let float = dtype(1).is_float() || dtype(2).is_float();
            let out = if float { random.of(&floats) } else { dtype(1) };
            Some(step(Operation::Select, 3, out))
        }
        8 if dtype(1) == DType::Bool => Some(step(Operation::MaskedFill, 2, dtype(0))),
        9 => {
            let out = random.of(&TYPES);
            (out != dtype(0)).then(|| step(Operation::Convert, 1, out))
        }
        _ => None,
    }
}

/// A word of elements: f32 as a tensor may hold it, other types any bits that they have.
fn random_word(random: &mut Random, dtype: DType) -> u32 {
    let bits = random.next() as u32;
    match dtype {
        DType::F32 => {
            let ordinary = (bits % 4096) as f32 / 512.0 - 4.0;
            match random.below(8) {
                0 => random
                    .of(&[
                        0.0,
                        -0.0,
                        1.0,
                        f32::INFINITY,
                        f32::NAN,
                        f32::MIN_POSITIVE,
                        2e9,
                    ])
                    .to_bits(),
                1 if bits & 0x7f80_0000 != 0 => bits,
                _ => ordinary.to_bits(),
            }
        }
        DType::Bool => bits & 0x0101_0101,
        _ => bits,
    }
}
