//! Launchers of several passes in a graph: they allocate, but neither upload, download nor wait, and
//! a replay computes from what the operands then hold.

use hlx_core::{Buffer, DType, Device};
use hlx_kernels::indexing::{NO_BAD_INDEX, gather, index_add, scatter, scatter_add};
use hlx_kernels::reduce_axes::{Reduction, reduce};
use hlx_kernels::scan::cumsum;
use hlx_kernels::sort::sort;
use hlx_kernels::testing::{devices, ids, normal};
use hlx_kernels::{KernelError, Layout, Operand};

const ROWS: usize = 5000;
const COLUMNS: usize = 3;
const LEN: usize = ROWS * COLUMNS;

/// Operands that a graph reads, and everything that it writes.
struct Tensors {
    x: Buffer,
    index: Buffer,
    outputs: Vec<Buffer>,
}

impl Tensors {
    fn new(device: &Device) -> Result<Self, KernelError> {
        let typed = [
            (DType::F32, COLUMNS), // sums of the columns
            (DType::U32, 1),       // the largest element's place
            (DType::Bool, ROWS),   // whether a row has a non-zero element
            (DType::F32, LEN),     // running sums
            (DType::F32, LEN),     // sorted columns
            (DType::U32, LEN),     // and their places
            (DType::F32, LEN),     // gathered elements
            (DType::F32, LEN),     // scattered elements
            (DType::F32, LEN),     // added elements
            (DType::F32, LEN),     // added rows
            (DType::U32, 1),       // the first bad index
        ];
        let outputs = typed
            .into_iter()
            .map(|(dtype, len)| device.alloc_typed(dtype, len));
        Ok(Self {
            x: device.alloc(LEN)?,
            index: device.alloc_typed(DType::U32, LEN)?,
            outputs: outputs.collect::<Result<_, _>>()?,
        })
    }

    fn upload(&self, device: &Device, seed: u64) -> Result<(), KernelError> {
        device.upload(&self.x, &normal(seed, LEN))?;
        // The last index is out of range.
        let mut index = ids(seed, LEN, ROWS as u32);
        index[LEN - 1] = ROWS as u32;
        Ok(device.upload(&self.index, &index)?)
    }

    fn launch(&self, device: &Device) -> Result<(), KernelError> {
        let shape = [ROWS, COLUMNS];
        let (layout, line) = (Layout::contiguous(&shape)?, Layout::contiguous(&[ROWS])?);
        let operand = |buffer| Operand {
            buffer,
            layout: &layout,
        };
        let (x, index) = (operand(&self.x), operand(&self.index));
        let out = &self.outputs;
        let flag = &out[10];
        device.fill(flag, NO_BAD_INDEX)?;
        reduce(device, Reduction::Sum, x, &[0], &out[0])?;
        reduce(device, Reduction::ArgMax, x, &[0, 1], &out[1])?;
        reduce(device, Reduction::Any, x, &[1], &out[2])?;
        cumsum(device, x, 0, &out[3])?;
        sort(device, x, 0, true, &out[4], &out[5])?;
        gather(device, x, 0, index, &out[6], Some(flag))?;
        for target in &out[7..10] {
            device.fill(target, 0)?;
        }
        scatter(device, &out[7], &shape, 0, index, x, Some(flag))?;
        scatter_add(device, &out[8], &shape, 0, index, x, Some(flag))?;
        let rows = Operand {
            buffer: &self.index.slice(0, ROWS)?,
            layout: &line,
        };
        index_add(device, &out[9], &shape, 0, rows, x, None)
    }

    fn words(&self, device: &Device) -> Result<Vec<Vec<u32>>, KernelError> {
        let words = self
            .outputs
            .iter()
            .map(|buffer| device.download_words(buffer));
        Ok(words.collect::<Result<_, _>>()?)
    }
}

#[test]
fn recorded_passes_compute_from_what_operands_hold_at_the_replay() {
    let mut of_devices = Vec::new();
    for device in devices() {
        let run = || -> Result<Vec<Vec<u32>>, KernelError> {
            let direct = Tensors::new(device)?;
            direct.upload(device, 2)?;
            direct.launch(device)?;
            let want = direct.words(device)?;

            let recorded = Tensors::new(device)?;
            recorded.upload(device, 1)?;
            let (graph, ()) = device.record(|| recorded.launch(device))?;
            graph.replay()?;
            assert_ne!(recorded.words(device)?, want, "other operands");
            recorded.upload(device, 2)?;
            graph.replay()?;
            assert_eq!(recorded.words(device)?, want, "{}", device.info());
            Ok(want)
        };
        of_devices.push(run().expect("launches"));
    }
    for words in &of_devices {
        assert_eq!(words, &of_devices[0]);
        assert_eq!(words[10], [LEN as u32 - 1], "the bad index");
    }
}
