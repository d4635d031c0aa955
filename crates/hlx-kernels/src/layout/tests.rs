//! Layouts against the elements that they address.

use super::*;

fn places(layout: &Layout) -> Vec<usize> {
    let mut places = Vec::new();
    let n = layout.n_elements();
    for linear in 0..n {
        let (mut rest, mut index) = (linear, vec![0; layout.rank()]);
        for axis in (0..layout.rank()).rev() {
            index[axis] = rest % layout.shape()[axis];
            rest /= layout.shape()[axis];
        }
        places.push(layout.place(&index));
    }
    places
}

fn of(shape: &[usize]) -> Layout {
    Layout::contiguous(shape).expect("a shape")
}

#[test]
fn movements_find_their_elements() {
    let x = of(&[2, 3]);
    assert_eq!(places(&x.permute(&[1, 0]).unwrap()), [0, 3, 1, 4, 2, 5]);
    assert_eq!(places(&x.slice(1, (0, 3, 2)).unwrap()), [0, 2, 3, 5]);
    assert_eq!(places(&x.flip(1).unwrap()), [2, 1, 0, 5, 4, 3]);
    assert_eq!(places(&x.select(0, 1).unwrap()), [3, 4, 5]);
    assert_eq!(
        places(&of(&[3]).expand(&[2, 3]).unwrap()),
        [0, 1, 2, 0, 1, 2]
    );
    assert_eq!(
        places(&of(&[4]).unfold(0, 2, 1).unwrap()),
        [0, 1, 1, 2, 2, 3]
    );
    assert_eq!(places(&of(&[3, 3]).diagonal(1, 0, 1).unwrap()), [1, 5]);
    assert_eq!(places(&of(&[3, 3]).diagonal(-1, 0, 1).unwrap()), [3, 7]);
    assert_eq!(x.flip(0).unwrap().span(), (0, 6));
    assert!(x.slice(0, (2, 2, 1)).unwrap().n_elements() == 0);
}

#[test]
fn reshape_is_a_view_where_strides_can_say_it() {
    let x = of(&[2, 3, 4]);
    let swapped = x.permute(&[1, 0, 2]).unwrap();
    assert_eq!(swapped.reshape(&[3, 8]).unwrap(), None);
    let split = swapped.reshape(&[3, 2, 2, 2]).unwrap().expect("a view");
    assert_eq!(places(&split), places(&swapped));
    let merged = x.slice(0, (1, 2, 1)).unwrap();
    let merged = merged.reshape(&[12]).unwrap().expect("a view");
    assert_eq!((merged.offset(), merged.is_contiguous()), (12, true));
    let transposed = of(&[6]).reshape(&[2, 3]).unwrap().expect("a view");
    let transposed = transposed.permute(&[1, 0]).unwrap();
    assert_eq!(transposed.reshape(&[6]).unwrap(), None);
    assert_eq!(
        transposed.reshape(&[5]).expect_err("5 of 6"),
        "shape [3, 2] has 6 elements, expected 5 as [5]"
    );
    let expanded = of(&[1, 4]).expand(&[3, 4]).unwrap();
    let view = expanded.reshape(&[3, 2, 2]).unwrap().expect("a view");
    assert_eq!(places(&view), places(&expanded));
    assert_eq!(expanded.reshape(&[12]).unwrap(), None);
}

#[test]
fn shapes_broadcast_as_in_numpy() {
    assert_eq!(broadcast_shape(&[&[3, 1], &[4]]), Some(vec![3, 4]));
    assert_eq!(broadcast_shape(&[&[0, 1], &[1, 5]]), Some(vec![0, 5]));
    assert_eq!(broadcast_shape(&[&[2], &[3]]), None);
    assert_eq!(broadcast_shape(&[&[], &[2]]), Some(vec![2]));
}

#[test]
fn too_many_dimensions_and_elements_are_refused() {
    assert!(Layout::contiguous(&[1; 9]).is_err());
    let error = Layout::contiguous(&[usize::MAX, 2]).expect_err("too many");
    assert!(error.to_string().contains("more elements"));
}
