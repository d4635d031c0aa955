//! Rows of operations that move elements, or read and write them by index.

use hlx_autograd::{Index, Padding};

use crate::row::{Row, ids, mask, rows};

#[rustfmt::skip] // One line per row.
pub fn views() -> Vec<Row> {
    rows! { x:
        [[2, 3]] (x[0]).reshape(&[3, 2]);
        [[2, 3]] (x[0].transpose(0, 1)?).reshape(&[6]);
        [[2, 3]] (x[0]).view(&[3, 2]);
        [[2, 3]] (x[0]).view(&[6]);
        [[2, 3]] (x[0].transpose(0, 1)?).contiguous();
        [[2, 3, 4]] (x[0]).permute(&[2, 0, 1]);
        [[2, 3, 4]] (x[0]).permute(&[0, 2, 1]);
        [[2, 3, 4]] (x[0]).transpose(0, 1);
        [[2, 3, 4]] (x[0]).transpose(1, -1);
        [[3]] (x[0]).expand(&[5, 3]);
        [[2, 1, 3]] (x[0]).expand(&[7, 2, 5, 3]);
        [[2, 3]] (x[0]).unsqueeze(0);
        [[2, 3]] (x[0]).unsqueeze(-1);
        [[1, 3, 1]] (x[0]).squeeze(0);
        [[1, 3, 1]] (x[0]).squeeze(-1);
        [[2, 3, 4]] (x[0]).unflatten(-1, &[2, 2]);
        [[2, 3, 4]] (x[0]).unflatten(1, &[3, -1]);
        [[2, 3, 4]] (x[0]).flatten(0, 1);
        [[2, 3, 4]] (x[0]).flatten(1, -1);
        [[3, 7]] (x[0]).slice(1, 1..6, 2);
        [[3, 7]] (x[0]).slice(0, 0..2, 1);
        [[3, 7]] (x[0]).narrow(1, 2, 3);
        [[3, 7]] (x[0]).narrow(0, 1, 2);
        [[3, 7]] (x[0]).select(0, 1);
        [[3, 7]] (x[0]).select(1, 6);
        [[3, 4]] (x[0]).diagonal(0, 0, 1);
        [[3, 4, 2]] (x[0]).diagonal(1, 2, 0);
        [[3, 4]] (x[0]).flip(&[0]);
        [[3, 4]] (x[0]).flip(&[0, 1]);
        [[9]] (x[0]).unfold(0, 5, 1);
        [[2, 9]] (x[0]).unfold(1, 4, 2);
        [[5, 2]] (x[0]).split(2, 0);
        [[2, 5]] (x[0]).split(3, 1);
        [[5, 2]] (x[0]).chunk(2, 0);
        [[2, 5]] (x[0]).chunk(3, 1);
        [[3, 4]] (x[0]).tril(0);
        [[3, 4]] (x[0]).tril(-1);
        [[3, 4]] (x[0]).triu(0);
        [[3, 4]] (x[0]).triu(2);
    }
}

#[rustfmt::skip] // One line per row.
pub fn joins() -> Vec<Row> {
    rows! { x:
        [[3, 4]] (x[0]).pad(&[(2, 1), (1, 0)], Padding::Constant(0.7));
        [[3, 4]] (x[0]).pad(&[(3, 2), (1, 2)], Padding::Reflect);
        [[3, 4]] (x[0]).pad(&[(3, 4), (5, 2)], Padding::Replicate);
        [[3, 4]] (x[0]).pad(&[(-1, 2)], Padding::Constant(-0.3));
        [[3, 4]] (x[0]).roll(&[1], &[0]);
        [[3, 4]] (x[0]).roll(&[-1, 2], &[1, 0]);
        [[2, 3]] (x[0]).repeat(&[7, 5]);
        [[3]] (x[0]).repeat(&[2, 1, 4]);
        [[2, 3]] (x[0]).repeat_interleave(5, 0);
        [[2, 3]] (x[0]).repeat_interleave(3, -1);
        [[2, 3]] (x[0]).repeat_interleave_by(&ids(&x[0], &[5, 0, 3], &[3]), 1);
        [[2, 3]] (x[0]).repeat_interleave_by(&ids(&x[0], &[4], &[1]), 0);
    }
}

#[rustfmt::skip] // One line per row.
pub fn places() -> Vec<Row> {
    rows! { x:
        [[3, 4]] (x[0]).gather(0, &ids(&x[0], &[2, 0, 1, 1, 2, 2, 1, 1], &[2, 4]));
        [[3, 4]] (x[0]).gather(1, &ids(&x[0], &[3, 3, 3, 0, 0, 0], &[2, 3]));
        [[3, 4]] (x[0]).index_select(0, &ids(&x[0], &[1, 1, 1, 1, 0], &[5]));
        [[3, 4]] (x[0]).index_select(1, &ids(&x[0], &[3, 3], &[2]));
        [[3, 4], [2, 4]] (x[0]).scatter(0, &ids(&x[0], &[2, 0, 1, 1, 2, 2, 0, 1], &[2, 4]), &x[1]);
        [[3, 4], [3, 2]] (x[0]).scatter(1, &ids(&x[0], &[3, 0, 1, 1, 2, 2], &[3, 2]), &x[1]);
        [[3, 4], [2, 4]] (x[0]).scatter_add(0, &ids(&x[0], &[2, 0, 1, 1, 2, 2, 1, 1], &[2, 4]), &x[1]);
        [[3, 4], [3, 2]] (x[0]).scatter_add(1, &ids(&x[0], &[3, 3, 1, 1, 2, 2], &[3, 2]), &x[1]);
        [[3, 4], [3, 4]] (x[0]).index_add(0, &ids(&x[0], &[2, 2, 2], &[3]), &x[1]);
        [[3, 4], [3, 2]] (x[0]).index_add(1, &ids(&x[0], &[3, 3], &[2]), &x[1]);
        [[3, 4]] (x[0]).masked_select(&mask(&x[0], &[3, 4]));
        [[4]] (x[0]).masked_select(&mask(&x[0], &[5, 1]));
        [[3, 4]] (x[0]).take_along_dim(&ids(&x[0], &[2, 0, 1, 2], &[1, 4]), Some(0));
        [[1, 4]] (x[0]).take_along_dim(&ids(&x[0], &[3, 3, 0, 3, 3, 1], &[3, 2]), Some(1));
        [[3, 4]] (x[0]).take_along_dim(&ids(&x[0], &[7, 0, 7], &[3]), None);
        [[3, 4, 2]] (x[0]).index(&[Index::At(1), Index::Range { start: Some(1), end: None, step: 2 }]);
        [[3, 4, 2]] (x[0]).index(&[Index::Tensor(ids(&x[0], &[2, 2, 2, 0], &[4])), Index::New]);
        [[3, 4, 2]] (x[0]).index(&[Index::Ellipsis, Index::Tensor(mask(&x[0], &[4, 2]))]);
        [[3, 4], [4]] (x[0]).index_put(&[Index::Tensor(ids(&x[0], &[2, 2, 0], &[3]))], &x[1], false);
        [[3, 4], [3, 1]] (x[0]).index_put(&[Index::Tensor(ids(&x[0], &[2, 2, 0], &[3]))], &x[1], true);
        [[3, 4], [3]] (x[0]).index_put(&[Index::At(1), Index::Range { start: None, end: Some(3), step: 1 }], &x[1], true);
        [[3, 4], [1, 3, 4]] (x[0]).index_put(&[Index::New, Index::Ellipsis], &x[1], false);
        [[5, 3]] (ids(&x[0], &[1, 1, 1, 4], &[2, 2])).embedding(&x[0]);
        [[5, 3]] (ids(&x[0], &[1, 1, 1, 4], &[4])).embedding_padded(&x[0], 1);
        [[5, 3]] (ids(&x[0], &[1, 1, 1, 4], &[4])).embedding_padded(&x[0], 4);
    }
}
