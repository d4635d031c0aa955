//! Scattering and additions by index against the order that is written down.

use super::*;

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
        let got = run_everywhere("scatter", |device, memory| {
            let words: Vec<u32> = {
                let mut bytes = bytemuck::cast_slice(&stored).to_vec();
                bytes.resize(4 * T::DTYPE.words(90), 0_u8);
                bytes
                    .chunks(4)
                    .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect()
            };
            let target = memory.input_u32(device, &words)?;
            let from = device.buffer_of(&source)?;
            let places = memory.input_u32(device, &index)?.view_as(DType::U32, 400)?;
            let flag = memory.input_u32(device, &[NO_BAD_INDEX])?;
            let of_index = Layout::contiguous(&index_shape)?;
            let index = Operand::new(&places, &of_index);
            let from = Operand::new(&from, &source_layout);
            let (view, flag_word) = (target.view_as(T::DTYPE, 90)?, flag.view_as(DType::U32, 1)?);
            scatter(device, &view, &shape, 1, index, from, Some(&flag_word))?;
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
        let got = run_everywhere("scatter_add", |device, memory| {
            let target = memory.input(device, &stored)?;
            let from = memory.input(device, &source)?;
            let places = memory
                .input_u32(device, &index)?
                .view_as(DType::U32, count)?;
            let flag = memory.input_u32(device, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let line = Layout::contiguous(&[count])?;
            let index = Operand::new(&places, &line);
            let from = Operand::new(&from, &line);
            scatter_add(device, &target, &[n], 0, index, from, Some(&flag_word))?;
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
    let got = run_everywhere("scatter_add", |device, memory| {
        let target = memory.input_u32(device, &stored)?;
        let view = target.view_as(DType::I32, 120)?;
        let from = memory
            .input_u32(device, &source)?
            .view_as(DType::I32, 600)?;
        let places = memory.input_u32(device, &index)?.view_as(DType::I32, 600)?;
        let layout = Layout::contiguous(&index_shape)?;
        let index = Operand::new(&places, &layout);
        let from = Operand::new(&from, &layout);
        scatter_add(device, &view, &shape, 2, index, from, None)?;
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
        let reversed: Vec<usize> = wide.iter().rev().copied().collect();
        let order: Vec<usize> = (0..wide.len()).rev().collect();
        let layout = Layout::contiguous(&reversed).expect("a shape");
        let layout = layout.permute(&order).expect("a permutation");
        let layout = layout.flip(axis).expect("a dimension");
        let dense = Layout::contiguous(&wide).expect("a shape");
        let mut packed = vec![0.0; source.len()];
        for at in indices_of(&wide) {
            packed[dense.place(&at)] = source[layout.place(&at)];
        }
        let got = run_everywhere("index_add", |device, memory| {
            let (target, again) = (
                memory.input(device, &stored)?,
                memory.input(device, &stored)?,
            );
            let from = memory.input(device, &source)?;
            let straight = memory.input(device, &packed)?;
            let places = memory.input_u32(device, &index)?.view_as(DType::U32, m)?;
            let line = Layout::contiguous(&[m])?;
            let index = Operand::new(&places, &line);
            let operand = |buffer, layout| Operand { buffer, layout };
            index_add(
                device,
                &target,
                shape,
                axis,
                index,
                operand(&from, &layout),
                None,
            )?;
            index_add(
                device,
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
        let got = run_everywhere("scatter_add", |device, memory| {
            let target = memory.input(device, &stored)?;
            let from = memory.input(device, &source)?;
            let places = memory
                .input_u32(device, &index)?
                .view_as(DType::U32, count)?;
            let flag = memory.input_u32(device, &[NO_BAD_INDEX])?;
            let flag_word = flag.view_as(DType::U32, 1)?;
            let layout = Layout::contiguous(index_shape)?;
            let index = Operand::new(&places, &layout);
            let from = Operand::new(&from, &layout);
            scatter_add(device, &target, shape, axis, index, from, Some(&flag_word))?;
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
