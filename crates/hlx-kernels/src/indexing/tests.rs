//! Indexing: bits of all devices, exact references, every type, indices out of range.

mod scatter;

use hlx_core::{Bool, Element};

use super::*;
use crate::testing::{ids, normal, run_everywhere};

fn indices_of(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut indices = vec![Vec::new()];
    for &extent in shape {
        let longer = indices
            .iter()
            .flat_map(|index: &Vec<usize>| (0..extent).map(move |i| [&index[..], &[i]].concat()));
        indices = longer.collect();
    }
    indices
}

#[test]
fn gathering_picks_by_index_along_any_axis() {
    let cases: [(&[usize], usize, &[usize]); 8] = [
        (&[7], 0, &[20]),
        (&[5, 9], 0, &[11, 9]),
        (&[5, 9], 1, &[4, 30]),
        (&[3, 4, 5], 1, &[2, 9, 5]),
        (&[40, 1000], 1, &[40, 33]),
        // Whole vectors of indices.
        (&[6, 8], 1, &[5, 4]),
        (&[6, 8], 0, &[9, 8]),
        (&[3, 4, 12], 1, &[3, 9, 8]),
    ];
    for (shape, axis, index_shape) in cases {
        let data = normal(1, shape.iter().product());
        let index = ids(2, index_shape.iter().product(), shape[axis] as u32);
        let got = run_everywhere("gather", |device, memory| {
            let (layout, of_index) = (Layout::contiguous(shape)?, Layout::contiguous(index_shape)?);
            let x = &memory.input(device, &data)?;
            let places = memory
                .input_u32(device, &index)?
                .view_as(DType::I32, index.len())?;
            let out = memory.output(device, index.len())?;
            let flag = memory.input_u32(device, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let x = Operand::new(x, &layout);
            let index = Operand::new(&places, &of_index);
            gather(device, x, axis, index, &out, Some(&flag_word))?;
            Ok(vec![out, flag])
        });
        let layout = Layout::contiguous(shape).expect("a shape");
        for (number, mut at) in indices_of(index_shape).into_iter().enumerate() {
            at[axis] = index[number] as usize;
            assert_eq!(
                got[0][number],
                data[layout.place(&at)],
                "{shape:?} along {axis}"
            );
        }
        assert_eq!(got[1][0].to_bits(), NO_BAD_INDEX);
    }
}

#[test]
fn indices_out_of_range_read_as_zero_and_set_the_flag() {
    let data = normal(3, 12);
    let index: [i32; 8] = [0, 2, -1, 1, 3, i32::MIN, i32::MAX, 2];
    let got = run_everywhere("gather", |device, memory| {
        let (layout, of_index) = (Layout::contiguous(&[3, 4])?, Layout::contiguous(&[2, 4])?);
        let x = &memory.input(device, &data)?;
        let words: &[u32] = bytemuck::cast_slice(&index);
        let places = memory.input_u32(device, words)?.view_as(DType::I32, 8)?;
        let (out, unflagged) = (memory.output(device, 8)?, memory.output(device, 8)?);
        let flag = memory.input_u32(device, &[NO_BAD_INDEX])?;
        let flag_word = flag.view_as(DType::U32, 1)?;
        let x = Operand::new(x, &layout);
        let index = Operand::new(&places, &of_index);
        gather(device, x, 0, index, &out, Some(&flag_word))?;
        gather(device, x, 0, index, &unflagged, None)?;
        Ok(vec![out, unflagged, flag])
    });
    let want = [data[0], data[9], 0.0, data[7], 0.0, 0.0, 0.0, data[11]];
    assert_eq!(got[0], want);
    assert_eq!(got[1], want);
    assert_eq!(got[2][0].to_bits(), 2, "the first index out of range");
}

#[test]
fn index_select_copies_rows_of_whole_vectors() {
    // Contiguous rows, a part of longer rows, and one that starts between vectors.
    for (from, row) in [((0, 12), 12), ((4, 8), 12), ((3, 8), 12), ((0, 8), 9)] {
        let data = normal(5, 10 * row);
        let index = [3_u32, 9, 10, 0, 3, u32::MAX];
        let x_layout = Layout::contiguous(&[10, row]).expect("a shape");
        let x_layout = x_layout
            .slice(1, (from.0, from.0 + from.1, 1))
            .expect("a part");
        let len = index.len() * from.1;
        let got = run_everywhere("index_select", |device, memory| {
            let buffer = &memory.input(device, &data)?;
            let places = memory.input_u32(device, &index)?;
            let places = places.view_as(DType::U32, index.len())?;
            let out = memory.output(device, len)?;
            let flag = memory.input_u32(device, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let x = Operand {
                buffer,
                layout: &x_layout,
            };
            let line = Layout::contiguous(&[index.len()])?;
            let index = Operand::new(&places, &line);
            index_select(device, x, 0, index, &out, Some(&flag_word))?;
            Ok(vec![out, flag])
        });
        for (number, &found) in got[0].iter().enumerate() {
            let (at, column) = (index[number / from.1] as usize, number % from.1);
            let want = match at < 10 {
                true => data[at * row + from.0 + column],
                false => 0.0,
            };
            assert_eq!(found, want, "{from:?} of {row}: {number}");
        }
        assert_eq!(got[1][0].to_bits() as usize, 2 * from.1);
    }
}

#[test]
fn index_select_takes_slices_of_every_type_in_any_layout() {
    fn check<T: Element>(of: impl Fn(u32) -> T) {
        let data: Vec<T> = ids(4, 6 * 7 * 5, u32::MAX)
            .iter()
            .map(|&word| of(word))
            .collect();
        let layout = Layout::contiguous(&[6, 7, 5]).expect("a shape");
        let layout = layout.permute(&[2, 0, 1]).expect("a permutation");
        let layout = layout.flip(1).expect("a dimension");
        let index = [4_u32, 0, 0, 3, 2, 1, 1];
        for axis in 0..3 {
            let mut shape = layout.shape().to_vec();
            shape[axis] = index.len();
            let len = shape.iter().product();
            let got = run_everywhere("index_select", |device, memory| {
                let buffer = &device.buffer_of(&data)?;
                let places = memory
                    .input_u32(device, &index)?
                    .view_as(DType::U32, index.len())?;
                let words = memory.output(device, T::DTYPE.words(len))?;
                let out = words.view_as(T::DTYPE, len)?;
                let line = Layout::contiguous(&[index.len()])?;
                let x = Operand {
                    buffer,
                    layout: &layout,
                };
                let index = Operand::new(&places, &line);
                index_select(device, x, axis, index, &out, None)?;
                Ok(vec![words])
            });
            let found: &[T] = bytemuck::cast_slice(&got[0]);
            for (number, mut at) in indices_of(&shape).into_iter().enumerate() {
                at[axis] = index[at[axis]] as usize;
                assert_eq!(
                    found[number],
                    data[layout.place(&at)],
                    "{} along {axis}",
                    T::DTYPE
                );
            }
        }
    }
    check(|word| word);
    check(|word| word as i8);
    check(|word| Bool::from(word % 2 == 1));
    check(|word| (word & 0x3fff) as f32);
}

#[test]
fn wrong_arguments_are_named() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let x = device.alloc(6).expect("memory");
    let layout = Layout::contiguous(&[2, 3]).expect("a shape");
    let places = device.alloc_typed(DType::U32, 6).expect("memory");
    let operand = Operand::new(&x, &layout);
    let index = Operand::new(&places, &layout);
    let error = gather(&device, operand, 2, index, &x, None).expect_err("an axis");
    assert_eq!(
        error.to_string(),
        "gather: axis 2 is out of range for shape [2, 3]"
    );
    let error = gather(&device, operand, 1, operand, &x, None).expect_err("a type");
    assert_eq!(
        error.to_string(),
        "gather: index has dtype f32, expected u32 or i32"
    );
    let wide = Layout::contiguous(&[3, 2]).expect("a shape");
    let index = Operand::new(&places, &wide);
    let error = gather(&device, operand, 1, index, &x, None).expect_err("a shape");
    assert_eq!(
        error.to_string(),
        "gather: index has shape [3, 2], expected at most [2, 3] but along axis 1"
    );
}
