//! Rows of reductions, running operations, orders and softmaxes.

use crate::row::{Row, rows};

#[rustfmt::skip] // One line per row.
pub fn reductions() -> Vec<Row> {
    rows! { x:
        [[3, 5]] (x[0]).sum();
        [[3, 5]] (x[0]).mean();
        [[3, 5]] (x[0]).sum_dim(&[0], false);
        [[3, 5]] (x[0]).sum_dim(&[-1], true);
        [[3, 5]] (x[0]).mean_dim(&[0], false);
        [[3, 5]] (x[0]).mean_dim(&[], true);
        [[3, 5]] (x[0]).amax(&[0], false);
        [[3, 5]] (x[0]).amax(&[], true);
        [[3, 5]] (x[0]).amin(&[0], false);
        [[3, 5]] (x[0]).amin(&[1], true);
        [[3, 5]] (x[0]).prod(&[0], false);
        [[3, 5]] (x[0]).prod(&[1], true);
        [[3, 5]] (x[0]).any(&[0], false);
        [[3, 5]] (x[0]).any(&[1], true);
        [[3, 7]] (x[0]).all(&[0], false);
        [[3, 7]] (x[0]).all(&[1], true);
        [[3, 5]] (x[0]).argmax(None, false);
        [[3, 5]] (x[0]).argmax(Some(1), true);
        [[3, 5]] (x[0]).argmin(None, false);
        [[3, 5]] (x[0]).argmin(Some(1), true);
        [[3, 5]] (x[0]).var(&[1], 1, false);
        [[3, 5]] (x[0]).var(&[], 0.5, true);
        [[3, 5]] (x[0]).std(&[1], 1, false);
        [[3, 5]] (x[0]).std(&[0], 0, true);
        [[3, 5]] (x[0]).norm(2.0, &[1], false);
        [[3, 5]] (x[0]).norm(1.0, &[0], true);
        [[3, 5]] (x[0]).norm(0.0, &[1], false);
        [[3, 5]] (x[0]).norm(3.0, &[1], false);
        [[3, 5]] (x[0]).norm(f32::INFINITY, &[], true);
        [[3, 5]] (x[0]).norm(f32::NEG_INFINITY, &[0], false);
        [[3, 5]] (x[0]).logsumexp(&[1], false);
        [[3, 5]] (x[0]).logsumexp(&[0], true);
        [[3, 5]] (x[0]).max_dim(1, false);
        [[3, 5]] (x[0]).max_dim(0, true);
        [[3, 5]] (x[0]).min_dim(1, false);
        [[3, 5]] (x[0]).min_dim(0, true);
        [[3, 5]] (x[0]).cumsum(0);
        [[3, 5]] (x[0]).cumsum(-1);
        [[3, 5]] (x[0]).cumprod(0);
        [[3, 5]] (x[0]).cumprod(-1);
        [[3, 5]] (x[0]).sort(1, false);
        [[3, 5]] (x[0]).sort(0, true);
        [[3, 5]] (x[0]).argsort(1, false);
        [[3, 5]] (x[0]).argsort(0, true);
        [[3, 5]] (x[0]).topk(2, 1, true);
        [[3, 5]] (x[0]).topk(3, 0, false);
        [[3, 5]] (x[0]).softmax();
        [[3, 5]] (x[0]).softmax_dim(0);
        [[3, 5]] (x[0]).softmax_dim(-1);
        [[3, 5]] (x[0]).log_softmax(0);
        [[3, 5]] (x[0]).log_softmax(-1);
    }
}
