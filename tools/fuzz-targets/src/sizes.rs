//! Sizes of memory and views, on any numbers: none may wrap, and no view may lead past its buffer.

use hlx_core::sizes::LARGEST;
use hlx_kernels::elementwise::copy_strided;
use hlx_kernels::{Layout, Operand};

use crate::files::cpu;

/// Numbers near those at which sums and products of 64 bits wrap.
const HOSTILE: [usize; 10] = [
    usize::MAX,
    usize::MAX - 62,
    1 << 63,
    isize::MAX as usize,
    usize::MAX / 4 + 1,
    LARGEST + 1,
    LARGEST,
    1 << 48,
    1 << 32,
    0xaaaa_aaaa_aaaa_aaab,
];

/// Numbers from bytes: small ones, and those of [`HOSTILE`].
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<usize> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        let hostile = usize::from(byte).checked_sub(256 - HOSTILE.len());
        Some(hostile.map_or(usize::from(byte), |which| HOSTILE[which]))
    }

    fn several(&mut self) -> Option<Vec<usize>> {
        let n = self.next()? % 5;
        (0..n).map(|_| self.next()).collect()
    }

    /// The layout after the next movement; `None` where it is refused, or at the end.
    fn moved(&mut self, from: &Layout) -> Option<Result<Layout, String>> {
        Some(match self.next()? % 9 {
            0 => from.expand(&self.several()?),
            1 => from.slice(self.next()?, (self.next()?, self.next()?, self.next()?)),
            2 => from.unfold(self.next()?, self.next()?, self.next()?),
            3 => from.flip(self.next()?),
            4 => from.select(self.next()?, self.next()?),
            5 => from.permute(&self.several()?),
            6 => from.diagonal(self.next()? as isize, self.next()?, self.next()?),
            7 => Ok(from.starting_at(self.next()?)),
            _ => match from.reshape(&self.several()?) {
                Ok(Some(view)) => Ok(view),
                Ok(None) => Err("no view".to_owned()),
                Err(reason) => Err(reason),
            },
        })
    }
}

/// Moves a view of 64 numbers about, and reads what it shows.
pub fn layouts(data: &[u8]) {
    let values: Vec<f32> = (0..64_u8).map(f32::from).collect();
    let x = cpu().buffer_of(&values).expect("64 numbers");
    let mut layout = Layout::contiguous(&[4, 16]).expect("64 numbers");
    let mut numbers = Numbers(data);
    for &size in HOSTILE.iter().filter(|&&size| size > 1 << 40) {
        assert!(cpu().alloc(size).is_err(), "{size} words");
    }
    while let Some(moved) = numbers.moved(&layout) {
        let Ok(moved) = moved else { continue };
        let exact = moved.shape().iter().map(|&extent| extent as u128);
        let exact: u128 = exact.product();
        assert!(exact <= LARGEST as u128 && exact == moved.n_elements() as u128);
        if exact <= 4096 {
            read(&x, &values, &moved);
        }
        layout = moved;
    }
}

/// Copies what a view shows: the elements of its places, or an error where one is outside.
fn read(x: &hlx_core::Buffer, values: &[f32], layout: &Layout) {
    let out = cpu().alloc(layout.n_elements()).expect("few numbers");
    let operand = Operand { buffer: x, layout };
    let copied = copy_strided(cpu(), operand, &out);
    let is_inside = layout.span().1 <= values.len();
    if layout.n_elements() == 0 {
        return;
    }
    assert_eq!(copied.is_ok(), is_inside, "{layout}: {copied:?}");
    if is_inside {
        let found = cpu().download::<f32>(&out).expect("downloads");
        let first = vec![0; layout.rank()];
        assert_eq!(found[0], values[layout.place(&first)], "{layout}");
    }
}
