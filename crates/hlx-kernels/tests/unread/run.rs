//! One run of a body: its buffers, what fills the words that its operation does not read, and what it collects.

use std::fmt;

use hlx_core::digest::canonical_bits;
use hlx_core::{Buffer, DType, Device, Element};
use hlx_kernels::testing::TestMemory;
use hlx_kernels::{KernelError, Layout, Operand};

/// A body: makes buffers, launches, and collects the parts of the results that the specification defines.
pub type Body = dyn Fn(&mut Run<'_>) -> Result<(), KernelError> + Send + Sync;

/// What fills words that an operation does not read: hidden keys, padding, what surrounds a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// Ordinary numbers: the reference.
    Ordinary,
    Nan,
    Infinity,
    NegativeInfinity,
    Largest,
    NegativeLargest,
}

impl Filler {
    /// All but the reference.
    pub const AWKWARD: [Self; 5] = [
        Self::Nan,
        Self::Infinity,
        Self::Largest,
        Self::NegativeInfinity,
        Self::NegativeLargest,
    ];

    /// The number in the place of an ordinary one.
    pub fn number(self, ordinary: f32) -> f32 {
        match self {
            Self::Ordinary => ordinary,
            Self::Nan => f32::NAN,
            Self::Infinity => f32::INFINITY,
            Self::NegativeInfinity => f32::NEG_INFINITY,
            Self::Largest => f32::MAX,
            Self::NegativeLargest => f32::MIN,
        }
    }

    /// The integer in the place of an ordinary one: the ends of the types, and indices that lead nowhere.
    pub fn integer(self, ordinary: u32) -> u32 {
        match self {
            Self::Ordinary => ordinary,
            Self::Nan => u32::MAX,
            Self::Infinity => 1 << 31,
            Self::NegativeInfinity => 0x7fff_ffff,
            Self::Largest => 0x7f7f_ffff,
            Self::NegativeLargest => 0x8080_8080,
        }
    }

    /// The word around buffers and in freed memory: awkward as f32, and its halves as f16 and bf16.
    fn fence(self) -> u32 {
        match self {
            Self::Ordinary => 0x5eed_f00d,
            Self::Nan => 0x7fff_7fff,
            Self::Infinity => 0x7f80_0000,
            Self::NegativeInfinity => 0xff80_fc00,
            Self::Largest => 0x7f7f_ffff,
            Self::NegativeLargest => 0xff7f_fbff,
        }
    }
}

/// Which numbers that are read are made NaN, infinite or huge: those of every third input, with another kind for
/// each three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Specials(pub usize);

impl Specials {
    /// So many are different.
    pub const COUNT: usize = 6;

    fn put(self, input: usize, data: &mut [f32]) {
        let numbers = [[f32::INFINITY, f32::MAX], [f32::NAN, f32::NEG_INFINITY]];
        if data.is_empty() || input % 3 != self.0 % 3 {
            return;
        }
        let last = data.len() - 1;
        [data[last / 3], data[last]] = numbers[self.0 / 3 % 2];
    }
}

/// What a run is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    pub filler: Filler,
    pub specials: Option<Specials>,
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.specials {
            None => write!(f, "unread words {:?}", self.filler),
            Some(Specials(n)) => write!(f, "unread words {:?}, read specials {n}", self.filler),
        }
    }
}

/// A run of a body on a device.
pub struct Run<'a> {
    pub device: &'a Device,
    pub memory: TestMemory,
    pub given: Given,
    inputs: usize,
    collected: Vec<Vec<u32>>,
}

impl<'a> Run<'a> {
    pub fn new(device: &'a Device, given: Given) -> Self {
        Self {
            device,
            memory: TestMemory::fenced_by(given.filler.fence()),
            given,
            inputs: 0,
            collected: Vec::new(),
        }
    }

    /// Runs a body and returns the words that it collects, NaN of f32 as one.
    pub fn outputs(
        device: &'a Device,
        given: Given,
        body: &Body,
    ) -> Result<Vec<Vec<u32>>, KernelError> {
        let mut run = Self::new(device, given);
        run.memory.spoil_freed_memory(device)?;
        body(&mut run)?;
        run.memory.check_fences("unread", device)?;
        Ok(run.collected)
    }

    /// Counts inputs from 0 again, so that the next ones have the specials of the first.
    pub fn restart(&mut self) {
        self.inputs = 0;
    }

    /// An input that is read as a whole.
    pub fn input(&mut self, data: &[f32]) -> Result<Buffer, KernelError> {
        self.input_hiding(data, |_| false)
    }

    /// An input of which the hidden elements are not read.
    pub fn input_hiding(
        &mut self,
        data: &[f32],
        hidden: impl Fn(usize) -> bool,
    ) -> Result<Buffer, KernelError> {
        let mut data = data.to_vec();
        if let Some(specials) = self.given.specials {
            specials.put(self.inputs, &mut data);
        }
        self.inputs += 1;
        for (at, x) in data.iter_mut().enumerate() {
            if hidden(at) {
                *x = self.given.filler.number(*x);
            }
        }
        Ok(self.memory.input(self.device, &data)?)
    }

    /// An input of another type than f32, read as a whole.
    pub fn typed<T: Element>(&mut self, data: &[T]) -> Result<Buffer, KernelError> {
        Ok(self.memory.input_of(self.device, data)?)
    }

    /// Ids, of which the hidden ones are not read.
    pub fn ids_hiding(
        &mut self,
        data: &[u32],
        hidden: impl Fn(usize) -> bool,
    ) -> Result<Buffer, KernelError> {
        let word = |(at, &id): (usize, &u32)| match hidden(at) {
            true => self.given.filler.integer(id),
            false => id,
        };
        let words: Vec<u32> = data.iter().enumerate().map(word).collect();
        Ok(self.memory.input_u32(self.device, &words)?)
    }

    /// Ids, read as a whole.
    pub fn ids(&mut self, data: &[u32]) -> Result<Buffer, KernelError> {
        self.ids_hiding(data, |_| false)
    }

    /// An f32 output, which holds what surrounds buffers: no kernel reads it.
    pub fn output(&mut self, len: usize) -> Result<Buffer, KernelError> {
        self.output_of(DType::F32, len)
    }

    /// An output of a type.
    pub fn output_of(&mut self, dtype: DType, len: usize) -> Result<Buffer, KernelError> {
        let buffer = self.memory.output_of(self.device, dtype, len)?;
        self.device.fill(&buffer, self.given.filler.fence())?;
        Ok(buffer)
    }

    /// Takes what another run has collected, of the same device and over the same numbers.
    pub fn take(&mut self, other: Run<'_>) -> Result<(), KernelError> {
        other.memory.check_fences("unread", other.device)?;
        self.collected.extend(other.collected);
        Ok(())
    }

    /// Collects all elements of a result.
    pub fn collect(&mut self, buffer: &Buffer) -> Result<(), KernelError> {
        self.collect_where(buffer, |_| true)
    }

    /// Collects all elements of some results.
    pub fn collect_all<'b>(
        &mut self,
        buffers: impl IntoIterator<Item = &'b Buffer>,
    ) -> Result<(), KernelError> {
        buffers
            .into_iter()
            .try_for_each(|buffer| self.collect(buffer))
    }

    /// Collects the words of a result that the specification defines.
    pub fn collect_where(
        &mut self,
        buffer: &Buffer,
        defined: impl Fn(usize) -> bool,
    ) -> Result<(), KernelError> {
        let words = self.device.download_words(buffer)?;
        let is_f32 = buffer.dtype() == DType::F32;
        let canonical = |word: u32| match is_f32 {
            true => canonical_bits(f32::from_bits(word)),
            false => word,
        };
        let collected = (0..).zip(words).filter(|(at, _)| defined(*at));
        self.collected
            .push(collected.map(|(_, word)| canonical(word)).collect());
        Ok(())
    }
}

/// A buffer with the layout of these extents.
pub struct Tensor {
    pub buffer: Buffer,
    layout: Layout,
}

impl Tensor {
    pub fn new(buffer: &Buffer, shape: &[usize]) -> Result<Self, KernelError> {
        let layout = Layout::contiguous(shape)?;
        Ok(Self {
            buffer: buffer.clone(),
            layout,
        })
    }

    pub fn operand(&self) -> Operand<'_> {
        Operand {
            buffer: &self.buffer,
            layout: &self.layout,
        }
    }
}
