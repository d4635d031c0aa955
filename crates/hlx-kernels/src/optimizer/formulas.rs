//! The steps of single elements on the CPU, each with the operations of its shader.

use hlx_core::arith::{add, div, sqrt, sub};

use super::hyper::Numbers;

/// The gradient times the factor of the norm, then within the limit; NaN stays.
macro_rules! clipped {
    ($ops:ident, $n:ident, $g:expr) => {{
        let g = $ops::mul($n.clip, $g);
        let g = if g > $n.limit { $n.limit } else { g };
        if g < -$n.limit { -$n.limit } else { g }
    }};
}

multiversion! {
    pub(super) fn sgd_chunk<A>(n: Numbers, grads: &[f32], params: &mut [f32]) {
        for (p, g) in params.iter_mut().zip(grads) {
            let d = A::fma(n.weight_decay, *p, clipped!(A, n, *g));
            *p = A::fma(n.negative_rate, d, *p);
        }
    }
}

multiversion! {
    pub(super) fn sgd_momentum_chunk<A>(
        n: Numbers,
        nesterov: bool,
        grads: &[f32],
        params: &mut [f32],
        momentum: &mut [f32],
    ) {
        for ((p, m), g) in params.iter_mut().zip(momentum).zip(grads) {
            let d = A::fma(n.weight_decay, *p, clipped!(A, n, *g));
            *m = A::fma(n.momentum, *m, A::mul(n.fresh, d));
            let d = if nesterov { A::fma(n.momentum, *m, d) } else { *m };
            *p = A::fma(n.negative_rate, d, *p);
        }
    }
}

multiversion! {
    pub(super) fn adam_chunk<A>(
        n: Numbers,
        decoupled: bool,
        grads: &[f32],
        params: &mut [f32],
        m: &mut [f32],
        v: &mut [f32],
    ) {
        for (((p, m), v), g) in params.iter_mut().zip(m).zip(v).zip(grads) {
            let clipped = clipped!(A, n, *g);
            let g = if decoupled { clipped } else { A::fma(n.weight_decay, *p, clipped) };
            let kept = if decoupled { A::mul(n.keep, *p) } else { *p };
            *m = A::fma(n.one_minus_beta1, sub(g, *m), *m);
            *v = A::fma(A::mul(n.one_minus_beta2, g), g, A::mul(n.beta2, *v));
            let denominator = A::fma(sqrt(*v), n.inverse_root, n.epsilon);
            *p = A::fma(n.negative_step, div(*m, denominator), kept);
        }
    }
}

multiversion! {
    pub(super) fn adagrad_chunk<A>(
        n: Numbers,
        grads: &[f32],
        params: &mut [f32],
        sum: &mut [f32],
    ) {
        for ((p, s), g) in params.iter_mut().zip(sum).zip(grads) {
            let g = A::fma(n.weight_decay, *p, clipped!(A, n, *g));
            *s = A::fma(g, g, *s);
            *p = A::fma(n.negative_rate, div(g, add(sqrt(*s), n.epsilon)), *p);
        }
    }
}

multiversion! {
    /// RMSprop; `momentum` and `mean` are empty without them.
    pub(super) fn rmsprop_chunk<A>(
        n: Numbers,
        grads: &[f32],
        params: &mut [f32],
        square: &mut [f32],
        momentum: &mut [f32],
        mean: &mut [f32],
    ) {
        for (i, ((p, s), g)) in params.iter_mut().zip(square).zip(grads).enumerate() {
            let g = A::fma(n.weight_decay, *p, clipped!(A, n, *g));
            *s = A::fma(A::mul(n.one_minus_beta2, g), g, A::mul(n.beta2, *s));
            let mut spread = *s;
            if let Some(mean) = mean.get_mut(i) {
                *mean = A::fma(n.one_minus_beta2, sub(g, *mean), *mean);
                spread = A::fma(-*mean, *mean, *s);
                spread = if spread < 0.0 { 0.0 } else { spread };
            }
            let mut d = div(g, add(sqrt(spread), n.epsilon));
            if let Some(m) = momentum.get_mut(i) {
                *m = A::fma(n.momentum, *m, d);
                d = *m;
            }
            *p = A::fma(n.negative_rate, d, *p);
        }
    }
}

multiversion! {
    pub(super) fn lion_chunk<A>(n: Numbers, grads: &[f32], params: &mut [f32], m: &mut [f32]) {
        for ((p, m), g) in params.iter_mut().zip(m).zip(grads) {
            let change = sub(clipped!(A, n, *g), *m);
            let u = A::fma(n.one_minus_beta1, change, *m);
            *m = A::fma(n.one_minus_beta2, change, *m);
            *p = A::fma(n.negative_rate, sign(u), A::mul(n.keep, *p));
        }
    }
}

/// 1, -1, 0 of either zero, NaN of NaN.
#[inline(always)]
fn sign(u: f32) -> f32 {
    if u > 0.0 {
        1.0
    } else if u < 0.0 {
        -1.0
    } else if u == 0.0 {
        0.0
    } else {
        u
    }
}

multiversion! {
    pub(super) fn average_chunk<A>(n: Numbers, params: &[f32], average: &mut [f32]) {
        for (e, p) in average.iter_mut().zip(params) {
            *e = A::fma(n.one_minus_beta1, sub(*p, *e), *e);
        }
    }
}

multiversion! {
    pub(super) fn muon_direction_chunk<A>(
        n: Numbers,
        nesterov: bool,
        grads: &[f32],
        out: &mut [f32],
        momentum: &mut [f32],
    ) {
        for ((u, m), g) in out.iter_mut().zip(momentum).zip(grads) {
            let g = clipped!(A, n, *g);
            *m = A::fma(n.one_minus_beta1, sub(g, *m), *m);
            *u = if nesterov { A::fma(n.momentum, sub(*m, g), g) } else { *m };
        }
    }
}

multiversion! {
    pub(super) fn muon_apply_chunk<A>(n: Numbers, direction: &[f32], params: &mut [f32]) {
        for (p, o) in params.iter_mut().zip(direction) {
            *p = A::fma(n.negative_rate, *o, A::mul(n.keep, *p));
        }
    }
}

multiversion! {
    pub(super) fn combine_chunk<A>(alpha: f32, beta: f32, x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = A::fma(alpha, *x, A::mul(beta, *y));
        }
    }
}
