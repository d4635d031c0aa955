//! The exponential of reports.

/// The exponential by HLX's own arithmetic, so that reports are the same on every platform.
pub(crate) fn exp(loss: f64) -> f64 {
    f64::from(hlx_core::cpu::with_flush(|| {
        hlx_core::arith::exp(loss as f32)
    }))
}
