//! Indexing: bits of all devices, exact references, every type, indices out of range.

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
        let got = run_everywhere("gather", |ctx, memory| {
            let (layout, of_index) = (Layout::contiguous(shape)?, Layout::contiguous(index_shape)?);
            let x = &memory.input(ctx, &data)?;
            let places = memory
                .input_u32(ctx, &index)?
                .view_as(DType::I32, index.len())?;
            let out = memory.output(ctx, index.len())?;
            let flag = memory.input_u32(ctx, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let x = Operand {
                buffer: x,
                layout: &layout,
            };
            let index = Operand {
                buffer: &places,
                layout: &of_index,
            };
            gather(ctx, x, axis, index, &out, Some(&flag_word))?;
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
    let got = run_everywhere("gather", |ctx, memory| {
        let (layout, of_index) = (Layout::contiguous(&[3, 4])?, Layout::contiguous(&[2, 4])?);
        let x = &memory.input(ctx, &data)?;
        let words: &[u32] = bytemuck::cast_slice(&index);
        let places = memory.input_u32(ctx, words)?.view_as(DType::I32, 8)?;
        let (out, unflagged) = (memory.output(ctx, 8)?, memory.output(ctx, 8)?);
        let flag = memory.input_u32(ctx, &[NO_BAD_INDEX])?;
        let flag_word = flag.view_as(DType::U32, 1)?;
        let x = Operand {
            buffer: x,
            layout: &layout,
        };
        let index = Operand {
            buffer: &places,
            layout: &of_index,
        };
        gather(ctx, x, 0, index, &out, Some(&flag_word))?;
        gather(ctx, x, 0, index, &unflagged, None)?;
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
        let got = run_everywhere("index_select", |ctx, memory| {
            let buffer = &memory.input(ctx, &data)?;
            let places = memory.input_u32(ctx, &index)?;
            let places = places.view_as(DType::U32, index.len())?;
            let out = memory.output(ctx, len)?;
            let flag = memory.input_u32(ctx, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let x = Operand {
                buffer,
                layout: &x_layout,
            };
            let line = Layout::contiguous(&[index.len()])?;
            let index = Operand {
                buffer: &places,
                layout: &line,
            };
            index_select(ctx, x, 0, index, &out, Some(&flag_word))?;
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
            let got = run_everywhere("index_select", |ctx, memory| {
                let buffer = &ctx.buffer_of(&data)?;
                let places = memory
                    .input_u32(ctx, &index)?
                    .view_as(DType::U32, index.len())?;
                let words = memory.output(ctx, T::DTYPE.words(len))?;
                let out = words.view_as(T::DTYPE, len)?;
                let line = Layout::contiguous(&[index.len()])?;
                let x = Operand {
                    buffer,
                    layout: &layout,
                };
                let index = Operand {
                    buffer: &places,
                    layout: &line,
                };
                index_select(ctx, x, axis, index, &out, None)?;
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
    let ctx = hlx_core::testing::cpu().expect("the CPU device");
    let x = ctx.alloc(6).expect("memory");
    let layout = Layout::contiguous(&[2, 3]).expect("a shape");
    let places = ctx.alloc_typed(DType::U32, 6).expect("memory");
    let operand = Operand {
        buffer: &x,
        layout: &layout,
    };
    let index = Operand {
        buffer: &places,
        layout: &layout,
    };
    let error = gather(&ctx, operand, 2, index, &x, None).expect_err("an axis");
    assert_eq!(
        error.to_string(),
        "gather: axis 2 is out of range for shape [2, 3]"
    );
    let error = gather(&ctx, operand, 1, operand, &x, None).expect_err("a type");
    assert_eq!(
        error.to_string(),
        "gather: index has dtype f32, expected u32 or i32"
    );
    let wide = Layout::contiguous(&[3, 2]).expect("a shape");
    let index = Operand {
        buffer: &places,
        layout: &wide,
    };
    let error = gather(&ctx, operand, 1, index, &x, None).expect_err("a shape");
    assert_eq!(
        error.to_string(),
        "gather: index has shape [3, 2], expected at most [2, 3] but along axis 1"
    );
}

/// The written order of additions: `contributions` of one target, in order.
fn added_in_order(stored: f32, contributions: &[f32]) -> f32 {
    let mut total = stored;
    for (number, piece) in contributions.chunks(4096).enumerate() {
        let start = if number == 0 { total } else { 0.0 };
        let chain = piece.iter().fold(start, |sum, x| sum + x);
        total = if number == 0 { chain } else { total + chain };
    }
    if total == 0.0 && !contributions.is_empty() {
        0.0
    } else {
        total
    }
}

#[test]
fn scattering_keeps_the_last_of_equal_targets() {
    fn check<T: Element>(of: impl Fn(u32) -> T) {
        let shape = [5, 6, 3];
        let index_shape = [5, 40, 2];
        let stored: Vec<T> = ids(5, 90, u32::MAX).iter().map(|&word| of(word)).collect();
        let source: Vec<T> = ids(6, 5 * 41 * 2, u32::MAX)
            .iter()
            .map(|&word| of(word))
            .collect();
        let mut index = ids(7, 400, 5);
        index[17] = 6;
        index[19] = u32::MAX;
        let source_layout = Layout::contiguous(&[2, 5, 41]).expect("a shape");
        let source_layout = source_layout.permute(&[1, 2, 0]).expect("a permutation");
        let got = run_everywhere("scatter", |ctx, memory| {
            let words: Vec<u32> = {
                let mut bytes = bytemuck::cast_slice(&stored).to_vec();
                bytes.resize(4 * T::DTYPE.words(90), 0_u8);
                bytes
                    .chunks(4)
                    .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect()
            };
            let target = memory.input_u32(ctx, &words)?;
            let from = ctx.buffer_of(&source)?;
            let places = memory.input_u32(ctx, &index)?.view_as(DType::U32, 400)?;
            let flag = memory.input_u32(ctx, &[NO_BAD_INDEX])?;
            let of_index = Layout::contiguous(&index_shape)?;
            let index = Operand {
                buffer: &places,
                layout: &of_index,
            };
            let from = Operand {
                buffer: &from,
                layout: &source_layout,
            };
            let (view, flag_word) = (target.view_as(T::DTYPE, 90)?, flag.view_as(DType::U32, 1)?);
            scatter(ctx, &view, &shape, 1, index, from, Some(&flag_word))?;
            Ok(vec![target, flag])
        });
        let layout = Layout::contiguous(&shape).expect("a shape");
        let mut want = stored.clone();
        for (number, at) in indices_of(&index_shape).iter().enumerate() {
            if index[number] < 6 {
                let to = layout.place(&[at[0], index[number] as usize, at[2]]);
                want[to] = source[source_layout.place(at)];
            }
        }
        let found: &[T] = &bytemuck::cast_slice(&got[0])[..90];
        assert_eq!(found, want, "{}", T::DTYPE);
        assert_eq!(got[1][0].to_bits(), 17);
    }
    check(|word| word);
    check(|word| word as i8);
    check(|word| word as u8);
}

#[test]
fn additions_have_the_written_order() {
    // Few targets with many contributions, several pieces of one, and targets without any.
    for (n, count, bound) in [
        (1, 1, 1),
        (7, 300, 5),
        (3, 10_000, 2),
        (2, 4096, 1),
        (5000, 3000, 5000),
    ] {
        let mut index = ids(8, count, bound);
        if count > 100 {
            index[50] = n as u32;
        }
        let (stored, source) = (normal(9, n), normal(10, count));
        let got = run_everywhere("scatter_add", |ctx, memory| {
            let target = memory.input(ctx, &stored)?;
            let from = memory.input(ctx, &source)?;
            let places = memory.input_u32(ctx, &index)?.view_as(DType::U32, count)?;
            let flag = memory.input_u32(ctx, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let line = Layout::contiguous(&[count])?;
            let index = Operand {
                buffer: &places,
                layout: &line,
            };
            let from = Operand {
                buffer: &from,
                layout: &line,
            };
            scatter_add(ctx, &target, &[n], 0, index, from, Some(&flag_word))?;
            Ok(vec![target, flag])
        });
        for target in 0..n {
            let own = index
                .iter()
                .zip(&source)
                .filter(|(at, _)| **at as usize == target);
            let own: Vec<f32> = own.map(|(_, x)| *x).collect();
            let want = added_in_order(stored[target], &own);
            assert_eq!(
                got[0][target].to_bits(),
                want.to_bits(),
                "target {target} of {n}"
            );
        }
        let bad = if count > 100 { 50 } else { NO_BAD_INDEX };
        assert_eq!(got[1][0].to_bits(), bad);
    }
}

#[test]
fn scatter_add_works_along_any_axis_and_integers_wrap() {
    let (shape, index_shape) = ([4, 5, 6], [3, 5, 40]);
    let stored = ids(11, 120, u32::MAX);
    let source = ids(12, 600, u32::MAX);
    let index = ids(13, 600, 6);
    let got = run_everywhere("scatter_add", |ctx, memory| {
        let target = memory.input_u32(ctx, &stored)?;
        let view = target.view_as(DType::I32, 120)?;
        let from = memory.input_u32(ctx, &source)?.view_as(DType::I32, 600)?;
        let places = memory.input_u32(ctx, &index)?.view_as(DType::I32, 600)?;
        let layout = Layout::contiguous(&index_shape)?;
        let index = Operand {
            buffer: &places,
            layout: &layout,
        };
        let from = Operand {
            buffer: &from,
            layout: &layout,
        };
        scatter_add(ctx, &view, &shape, 2, index, from, None)?;
        Ok(vec![target])
    });
    let layout = Layout::contiguous(&shape).expect("a shape");
    let mut want = stored;
    for (number, at) in indices_of(&index_shape).iter().enumerate() {
        let to = layout.place(&[at[0], at[1], index[number] as usize]);
        want[to] = want[to].wrapping_add(source[number]);
    }
    let found: Vec<u32> = got[0].iter().map(|x| x.to_bits()).collect();
    assert_eq!(found, want);
}

#[test]
fn index_add_adds_slices_in_order_in_any_layout() {
    for (shape, axis, m) in [
        (&[6_usize, 33][..], 0, 50),
        // Whole vectors of four, of one piece and of several.
        (&[3, 6, 8], 1, 50),
        (&[2, 8], 0, 10_000),
        (&[4, 6, 5], 1, 5000),
        (&[3, 7], 1, 9),
        (&[5], 0, 12),
    ] {
        let mut wide = shape.to_vec();
        wide[axis] = m;
        let (stored, source) = (
            normal(14, shape.iter().product()),
            normal(15, wide.iter().product()),
        );
        let index = ids(16, m, shape[axis] as u32);
        // The source is stored with its dimensions in the other order, and flipped along the axis.
        let turned: Vec<usize> = wide.iter().rev().copied().collect();
        let order: Vec<usize> = (0..wide.len()).rev().collect();
        let layout = Layout::contiguous(&turned).expect("a shape");
        let layout = layout.permute(&order).expect("a permutation");
        let layout = layout.flip(axis).expect("a dimension");
        let dense = Layout::contiguous(&wide).expect("a shape");
        let mut packed = vec![0.0; source.len()];
        for at in indices_of(&wide) {
            packed[dense.place(&at)] = source[layout.place(&at)];
        }
        let got = run_everywhere("index_add", |ctx, memory| {
            let (target, again) = (memory.input(ctx, &stored)?, memory.input(ctx, &stored)?);
            let from = memory.input(ctx, &source)?;
            let straight = memory.input(ctx, &packed)?;
            let places = memory.input_u32(ctx, &index)?.view_as(DType::U32, m)?;
            let line = Layout::contiguous(&[m])?;
            let index = Operand {
                buffer: &places,
                layout: &line,
            };
            let operand = |buffer, layout| Operand { buffer, layout };
            index_add(
                ctx,
                &target,
                shape,
                axis,
                index,
                operand(&from, &layout),
                None,
            )?;
            index_add(
                ctx,
                &again,
                shape,
                axis,
                index,
                operand(&straight, &dense),
                None,
            )?;
            Ok(vec![target, again])
        });
        let to = Layout::contiguous(shape).expect("a shape");
        for at in indices_of(shape) {
            let own = (0..m).filter(|&p| index[p] as usize == at[axis]).map(|p| {
                let mut from = at.clone();
                from[axis] = p;
                source[layout.place(&from)]
            });
            let own: Vec<f32> = own.collect();
            let place = to.place(&at);
            let want = added_in_order(stored[place], &own);
            assert_eq!(
                got[0][place].to_bits(),
                want.to_bits(),
                "{shape:?} along {axis}: {at:?}"
            );
            assert_eq!(got[1][place].to_bits(), want.to_bits());
        }
    }
}

#[test]
fn many_lines_are_added_in_the_written_order() {
    // Lines side by side and one behind the other, few positions and several pieces of a target, an
    // index that covers a part of the target, and one of many dimensions.
    for (shape, index_shape, axis, bound) in [
        (&[70_usize, 5][..], &[70_usize, 300][..], 1, 5),
        (&[70, 5], &[70, 3], 1, 5),
        (&[40, 3000], &[40, 700], 1, 3000),
        (&[9, 300], &[500, 300], 0, 9),
        (&[30, 3, 40], &[30, 90, 40], 1, 3),
        (&[64, 3], &[64, 4200], 1, 1),
        (&[64, 2100], &[64, 4200], 1, 2100),
        (&[50, 4, 9], &[40, 20, 7], 1, 4),
        (&[4, 3, 5, 2, 6, 3], &[4, 3, 5, 20, 6, 3], 3, 2),
    ] {
        let (len, count) = (shape.iter().product(), index_shape.iter().product());
        let (stored, source) = (normal(17, len), normal(18, count));
        let mut index = ids(19, count, bound);
        if shape.len() == 3 {
            index[count - 2] = u32::MAX;
            index[count / 2] = shape[axis] as u32;
        }
        let got = run_everywhere("scatter_add", |ctx, memory| {
            let target = memory.input(ctx, &stored)?;
            let from = memory.input(ctx, &source)?;
            let places = memory.input_u32(ctx, &index)?.view_as(DType::U32, count)?;
            let flag = memory.input_u32(ctx, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let layout = Layout::contiguous(index_shape)?;
            let index = Operand {
                buffer: &places,
                layout: &layout,
            };
            let from = Operand {
                buffer: &from,
                layout: &layout,
            };
            scatter_add(ctx, &target, shape, axis, index, from, Some(&flag_word))?;
            Ok(vec![target, flag])
        });
        let to = Layout::contiguous(shape).expect("a shape");
        let mut own = vec![Vec::new(); len];
        for (number, mut at) in indices_of(index_shape).into_iter().enumerate() {
            at[axis] = index[number] as usize;
            if at[axis] < shape[axis] {
                own[to.place(&at)].push(source[number]);
            }
        }
        for (place, own) in own.iter().enumerate() {
            let want = added_in_order(stored[place], own);
            let found = got[0][place];
            assert_eq!(
                found.to_bits(),
                want.to_bits(),
                "{index_shape:?} along {axis}: {place}"
            );
        }
        let bad = if shape.len() == 3 {
            count as u32 / 2
        } else {
            NO_BAD_INDEX
        };
        assert_eq!(got[1][0].to_bits(), bad);
    }
}
