//! `x[..]` with index tensors, masks and views beside each other: values against the definition, on
//! every device, read and written; derivatives against finite differences.

use hlx_autograd::{DType, GradCheck, Index, Result, Tensor, gradcheck};
use hlx_core::testing::{devices, own_devices};
use hlx_core::{Bool, Device};

const SHAPE: [usize; 4] = [3, 4, 2, 5];

fn counted(device: &Device, shape: &[usize]) -> Result<Tensor> {
    let n = shape.iter().product::<usize>();
    Tensor::arange(device, 0.0, n as f32, 1.0)?.reshape(shape)
}

fn places(device: &Device, values: &[i32], shape: &[usize]) -> Result<Index> {
    Ok(Index::Tensor(Tensor::from_slice(device, values, shape)?))
}

fn mask(device: &Device, held: &[u8], shape: &[usize]) -> Result<Index> {
    let held: Vec<Bool> = held.iter().map(|&held| Bool::from(held == 1)).collect();
    Ok(Index::Tensor(Tensor::from_slice(device, &held, shape)?))
}

/// Items, the result's shape, and the place in the first dimensions of x for each of its elements.
type Case = (Vec<Index>, Vec<usize>, fn(&[usize]) -> [usize; 4]);

/// Each case's rule is NumPy's and PyTorch's definition written out by hand.
fn cases(device: &Device) -> Result<Vec<Case>> {
    let pair = || places(device, &[2, 0], &[2]);
    let column = || places(device, &[1, 3, -1], &[3, 1]);
    Ok(vec![
        // Side by side: their dimensions are where the first was.
        (
            vec![(..).into(), column()?, places(device, &[1, 0], &[2])?],
            vec![3, 3, 2, 5],
            |o| [o[0], [1, 3, 3][o[1]], [1, 0][o[2]], o[3]],
        ),
        // Apart: first of all.
        (
            vec![pair()?, (..).into(), places(device, &[1, -2], &[2])?],
            vec![2, 4, 5],
            |o| [[2, 0][o[0]], o[1], [1, 0][o[0]], o[2]],
        ),
        // A number is a view, taken before: the tensors are side by side.
        (
            vec![pair()?, Index::At(-1), places(device, &[1, 0], &[2])?],
            vec![2, 5],
            |o| [[2, 0][o[0]], 3, [1, 0][o[0]], o[1]],
        ),
        // A mask over two dimensions, and one over the last beside a number.
        (
            vec![mask(
                device,
                &[0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0],
                &[3, 4],
            )?],
            vec![3, 2, 5],
            |o| {
                let row = [[0, 1], [1, 3], [2, 0]][o[0]];
                [row[0], row[1], o[1], o[2]]
            },
        ),
        (
            vec![
                Index::At(1),
                Index::Ellipsis,
                mask(device, &[1, 0, 0, 1, 1], &[5])?,
            ],
            vec![4, 2, 3],
            |o| [1, o[0], o[1], [0, 3, 4][o[2]]],
        ),
        // A new dimension and a range with a step between tensors.
        (
            vec![
                pair()?,
                Index::New,
                Index::Range {
                    start: Some(-3),
                    end: None,
                    step: 2,
                },
                (..).into(),
                places(device, &[4, 0], &[2])?,
            ],
            vec![2, 1, 2, 2],
            |o| [[2, 0][o[0]], 1 + 2 * o[2], o[3], [4, 0][o[0]]],
        ),
        (
            vec![Index::Ellipsis, (1..3).into()],
            vec![3, 4, 2, 2],
            |o| [o[0], o[1], o[2], 1 + o[3]],
        ),
        (vec![mask(device, &[0; 3], &[3])?], vec![0, 4, 2, 5], |_| {
            [0; 4]
        }),
        (
            vec![places(device, &[], &[0, 2])?],
            vec![0, 2, 4, 2, 5],
            |_| [0; 4],
        ),
    ])
}

/// The places in row-major order of x for all elements of a case's result.
fn expected((_, shape, rule): &Case) -> Vec<usize> {
    let n = shape.iter().product::<usize>();
    let place = |number: usize| {
        let mut rest = number;
        let mut at = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            (at[axis], rest) = (rest % shape[axis], rest / shape[axis]);
        }
        let found = rule(&at);
        found
            .iter()
            .zip(SHAPE)
            .fold(0, |place, (at, extent)| place * extent + at)
    };
    (0..n).map(place).collect()
}

#[test]
fn elements_are_where_the_definition_has_them() -> Result<()> {
    for device in devices() {
        let x = counted(device, &SHAPE)?;
        // The same elements in another order of memory.
        let transposed = x
            .permute(&[3, 1, 0, 2])?
            .contiguous()?
            .permute(&[2, 1, 3, 0])?;
        for (number, case) in cases(device)?.iter().enumerate() {
            let want: Vec<f32> = expected(case).iter().map(|&place| place as f32).collect();
            for x in [&x, &transposed] {
                let found = x.index(&case.0)?;
                assert_eq!(found.shape(), case.1, "case {number}");
                assert_eq!(found.to_vec::<f32>()?, want, "case {number}");
            }
            let bytes = x.to_dtype(DType::U8)?.index(&case.0)?;
            let want: Vec<u8> = want.iter().map(|&value| value as u8).collect();
            assert_eq!(bytes.to_vec::<u8>()?, want, "case {number}");
        }
    }
    Ok(())
}

#[test]
fn writes_and_sums_follow_the_order_of_the_index() -> Result<()> {
    for device in devices() {
        let x = counted(device, &SHAPE)?;
        for (number, case) in cases(device)?.iter().enumerate() {
            let values = Tensor::randn(device, &case.1, 5)?;
            let (mut written, mut added) = (x.to_vec::<f32>()?, x.to_vec::<f32>()?);
            for (place, value) in expected(case).into_iter().zip(values.to_vec::<f32>()?) {
                written[place] = value;
                added[place] += value;
            }
            assert_eq!(
                x.index_put(&case.0, &values, false)?.to_vec::<f32>()?,
                written,
                "case {number}"
            );
            assert_eq!(
                x.index_put(&case.0, &values, true)?.to_vec::<f32>()?,
                added,
                "case {number}"
            );
        }
        // A row for all, of another type, in a window of memory in another order.
        let memory = counted(device, &[4, 3])?;
        let mut window = memory.transpose(0, 1)?.slice(1, 1..4, 1)?;
        let ones = Tensor::ones(device, &[3], DType::I32)?;
        window.index_put_(&[places(device, &[2, 0], &[2])?], &ones, false)?;
        let want = [0.0, 1.0, 2.0, 1.0, 4.0, 1.0, 1.0, 7.0, 1.0, 1.0, 10.0, 1.0];
        assert_eq!(memory.to_vec::<f32>()?, want);
    }
    Ok(())
}

#[test]
fn derivatives_agree_with_finite_differences() -> Result<()> {
    let device = &devices()[0];
    for case in cases(device)?.iter().take(6) {
        let operands = [
            Tensor::randn(device, &SHAPE, 1)?,
            Tensor::randn(device, &case.1, 2)?,
        ];
        let check = GradCheck::default();
        gradcheck(
            "index",
            &operands[..1],
            |x| x[0].index(&case.0)?.gelu(),
            &check,
        )?;
        for accumulate in [false, true] {
            let put = |x: &[Tensor]| x[0].index_put(&case.0, &x[1], accumulate)?.gelu();
            gradcheck("index_put", &operands, put, &check)?;
        }
    }
    Ok(())
}

/// A place whose sum with another dimension's lies within x is out of range all the same.
#[test]
fn a_place_out_of_range_is_the_error_of_the_next_wait() -> Result<()> {
    for device in own_devices() {
        let x = counted(&device, &[3, 4])?;
        let items = [
            places(&device, &[0, 1, 0], &[3])?,
            places(&device, &[3, 4, -5], &[3])?,
        ];
        let taken = x.index(&items)?;
        let error = taken
            .to_vec::<f32>()
            .expect_err("two bad places")
            .to_string();
        assert_eq!(error, "index: element 1 of the index is out of range");
        assert_eq!(taken.to_vec::<f32>()?, [3.0, 0.0, 0.0]);
        let put = x.index_put(&items, &Tensor::full(&device, &[], 9.0, DType::F32)?, false)?;
        let error = put.to_vec::<f32>().expect_err("two bad places").to_string();
        assert_eq!(error, "index_put: element 1 of the index is out of range");
        let mut want = x.to_vec::<f32>()?;
        want[3] = 9.0;
        assert_eq!(put.to_vec::<f32>()?, want);
    }
    Ok(())
}

#[test]
fn unfitting_items_are_refused_in_one_line() -> Result<()> {
    let device = &devices()[0];
    let x = counted(device, &[3, 4])?;
    let message = |items: &[Index]| x.index(items).expect_err("it is refused").to_string();
    let all = || Index::from(..);
    for (items, text) in [
        (
            vec![all(), all(), all()],
            "index: an index of 3 dimensions for a tensor of 2",
        ),
        (
            vec![Index::Ellipsis; 2],
            "index: an index with two ellipses",
        ),
        (
            vec![Index::At(3)],
            "index: place 3 is out of range for an extent of 3",
        ),
        (
            vec![Index::Range {
                start: None,
                end: None,
                step: 0,
            }],
            "index: a range has step 0, expected at least 1",
        ),
        (
            vec![
                places(device, &[0; 3], &[3])?,
                places(device, &[0; 2], &[2])?,
            ],
            "index: indices of shapes [3] and [2] do not broadcast",
        ),
        (
            vec![mask(device, &[1; 6], &[3, 2])?],
            "index: the mask has shape [3, 2], expected [3, 4], that of the dimensions it indexes",
        ),
        (
            vec![Index::Tensor(counted(device, &[2])?)],
            "index: the index has elements of f32, expected i32",
        ),
    ] {
        assert_eq!(message(&items), text);
    }
    let text = x.take_along_dim(&Tensor::from_slice::<u32>(device, &[0], &[1])?, Some(0));
    let text = text.expect_err("it is refused").to_string();
    assert_eq!(
        text,
        "take_along_dim: the index has shape [1], expected 2 dimensions, as the input"
    );
    Ok(())
}

#[test]
fn elements_repeat_as_often_as_a_tensor_says() -> Result<()> {
    for device in devices() {
        let x = counted(device, &[2, 3])?;
        let repeats = |counts: &[i32]| Tensor::from_slice(device, counts, &[counts.len()]);
        let y = x.repeat_interleave_by(&repeats(&[0, 2, 1])?, -1)?;
        assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 4.0, 4.0, 5.0]);
        let y = x.repeat_interleave_by(&repeats(&[2])?, 0)?;
        assert!(y.equal(&x.repeat_interleave(2, 0)?)?);
        let error = x.repeat_interleave_by(&repeats(&[1, -2])?, 0);
        assert_eq!(
            error.expect_err("a negative number").to_string(),
            "repeat_interleave: an element is repeated -2 times, expected 0 or more"
        );
    }
    let operands = [Tensor::randn(&devices()[0], &[2, 3], 1)?];
    let counts = Tensor::from_slice(&devices()[0], &[2_i32, 0, 3], &[3])?;
    let repeated = |x: &[Tensor]| x[0].repeat_interleave_by(&counts, 1)?.gelu();
    gradcheck(
        "repeat_interleave",
        &operands,
        repeated,
        &GradCheck::default(),
    )?;
    Ok(())
}
