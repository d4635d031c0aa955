//! The steps of single elements on the CPU: each has the statements of `advance` in the shader of its name.

use hlx_core::arith::{FloatOps, add, div, sqrt, sub};

use super::hyper::Numbers;

/// Defines the loops over elements. A line names the numbers of the step, choices if it has any, the
/// gradient, and the words that the step updates.
macro_rules! steps {
    ($($name:ident<$ops:ident>($n:ident $(, $choice:ident)*; $g:ident; $($x:ident),+) $advance:block)+) => {$(
        multiversion! {
            pub(super) fn $name<$ops>(
                $n: Numbers,
                $($choice: bool,)*
                grads: &[f32],
                $($x: &mut [f32]),+
            ) {
                steps!(@each $advance, $g, grads.iter().copied(), $($x)+)
            }
        }
    )+};
    // Zipped one by one: with an index, loops take 10 % longer.
    (@each $advance:block, $elements:pat, $zipped:expr, $x:ident $($rest:ident)*) => {
        steps!(@each $advance, ($elements, $x), $zipped.zip($x.iter_mut()), $($rest)*)
    };
    (@each $advance:block, $elements:pat, $zipped:expr,) => {
        for $elements in $zipped $advance
    };
}

/// The gradient times the factor of the norm, then within the limit; NaN stays.
#[inline(always)]
pub(super) fn clipped<A: FloatOps>(n: &Numbers, gradient: f32) -> f32 {
    let g = A::mul(n.clip, gradient);
    let g = if g > n.limit { n.limit } else { g };
    if g < -n.limit { -n.limit } else { g }
}

steps! {
    sgd_chunk<A>(n; g; p) {
        let d = A::fma(n.weight_decay, *p, clipped::<A>(&n, g));
        *p = A::fma(n.negative_rate, d, *p);
    }

    sgd_momentum_chunk<A>(n, nesterov; g; p, m) {
        let d = A::fma(n.weight_decay, *p, clipped::<A>(&n, g));
        *m = A::fma(n.momentum, *m, A::mul(n.fresh, d));
        let d = if nesterov { A::fma(n.momentum, *m, d) } else { *m };
        *p = A::fma(n.negative_rate, d, *p);
    }

    adam_chunk<A>(n, decoupled; g; p, m, v) {
        let g = clipped::<A>(&n, g);
        let g = if decoupled { g } else { A::fma(n.weight_decay, *p, g) };
        let kept = if decoupled { A::mul(n.keep, *p) } else { *p };
        *m = A::fma(n.one_minus_beta1, sub(g, *m), *m);
        *v = A::fma(A::mul(n.one_minus_beta2, g), g, A::mul(n.beta2, *v));
        let denominator = A::fma(sqrt(*v), n.inverse_root, n.epsilon);
        *p = A::fma(n.negative_step, div(*m, denominator), kept);
    }

    adagrad_chunk<A>(n; g; p, s) {
        let g = A::fma(n.weight_decay, *p, clipped::<A>(&n, g));
        *s = A::fma(g, g, *s);
        *p = A::fma(n.negative_rate, div(g, add(sqrt(*s), n.epsilon)), *p);
    }

    rmsprop_chunk<A>(n; g; p, s) {
        rmsprop::<A>(&n, g, p, s, None, None);
    }

    rmsprop_momentum_chunk<A>(n; g; p, s, m) {
        rmsprop::<A>(&n, g, p, s, Some(m), None);
    }

    rmsprop_centered_chunk<A>(n; g; p, s, mean) {
        rmsprop::<A>(&n, g, p, s, None, Some(mean));
    }

    rmsprop_centered_momentum_chunk<A>(n; g; p, s, m, mean) {
        rmsprop::<A>(&n, g, p, s, Some(m), Some(mean));
    }

    lion_chunk<A>(n; g; p, m) {
        let change = sub(clipped::<A>(&n, g), *m);
        let u = A::fma(n.one_minus_beta1, change, *m);
        *m = A::fma(n.one_minus_beta2, change, *m);
        *p = A::fma(n.negative_rate, sign(u), A::mul(n.keep, *p));
    }

    average_chunk<A>(n; p; e) {
        *e = A::fma(n.one_minus_beta1, sub(p, *e), *e);
    }

    muon_direction_chunk<A>(n, nesterov; g; u, m) {
        let g = clipped::<A>(&n, g);
        *m = A::fma(n.one_minus_beta1, sub(g, *m), *m);
        *u = if nesterov { A::fma(n.momentum, sub(*m, g), g) } else { *m };
    }

    adafactor_gradient_chunk<A>(n; g; u) {
        *u = clipped::<A>(&n, g);
    }

    adafactor_factor_chunk<A>(n, squares; x; f) {
        let mean = if squares { A::mul(x, x) } else { x };
        *f = A::fma(n.one_minus_beta2, sub(mean, *f), *f);
    }

    adafactor_apply_chunk<A>(n; u; p) {
        *p = A::fma(-n.clip, u, A::mul(n.keep, *p));
    }

    muon_apply_chunk<A>(n; o; p) {
        *p = A::fma(n.negative_rate, o, A::mul(n.keep, *p));
    }
}

/// RMSprop, with momentum if there is `m`, and centered if there is `mean`. Each loop knows which there are when it is
/// compiled: with slices that may be empty AVX-512 reads them under masks, and a masked read of no memory takes
/// 100 times as long.
#[inline(always)]
fn rmsprop<A: FloatOps>(
    n: &Numbers,
    gradient: f32,
    p: &mut f32,
    s: &mut f32,
    m: Option<&mut f32>,
    mean: Option<&mut f32>,
) {
    let g = A::fma(n.weight_decay, *p, clipped::<A>(n, gradient));
    *s = A::fma(A::mul(n.one_minus_beta2, g), g, A::mul(n.beta2, *s));
    let mut spread = *s;
    if let Some(mean) = mean {
        *mean = A::fma(n.one_minus_beta2, sub(g, *mean), *mean);
        spread = A::fma(-*mean, *mean, *s);
        spread = if spread < 0.0 { 0.0 } else { spread };
    }
    let mut d = div(g, add(sqrt(spread), n.epsilon));
    if let Some(m) = m {
        *m = A::fma(n.momentum, *m, d);
        d = *m;
    }
    *p = A::fma(n.negative_rate, d, *p);
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
    /// One combination of a Newton-Schulz step.
    pub(super) fn combine_chunk<A>(alpha: f32, beta: f32, x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = A::fma(alpha, *x, A::mul(beta, *y));
        }
    }
}
