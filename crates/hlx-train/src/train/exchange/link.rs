//! The seam between the order of an exchange and what carries its words.

use hlx_core::Buffer;
use hlx_nn::Result;

use super::times::Span;

/// How gradients are cut into swaps for a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Words at which a bucket of gradients ends, at the next parameter: the most, where many are left.
    pub bucket: usize,
    /// The least: a bucket has about half of what is left, so that little is exchanged after the passes.
    pub least: usize,
    /// The most words of a swap.
    pub capacity: usize,
    /// How many buckets later a swap ends, so that the device seldom waits for it.
    pub lag: usize,
}

/// Swaps windows of device buffers with other ranks. Swaps end in the order in which they began, and all
/// ranks begin them in the same order.
pub(super) trait Link: Send {
    /// What carries the words, for people: `NCCL 2.28.3`.
    fn name(&self) -> String;

    /// Begins a swap with a rank: sends the words of `out`, at most [`Cut::capacity`], as they are after all work
    /// launched so far, and receives `n_into`. Does not wait for the device.
    ///
    /// # Errors
    /// A rank that is lost, and what the device reports.
    fn begin(&mut self, peer: usize, out: Option<&Buffer>, n_into: usize) -> Result<()>;

    /// Ends the oldest swap: work launched from now on sees the received words in the buffer returned,
    /// until as many swaps have begun as the link was made for.
    ///
    /// # Errors
    /// As [`Link::begin`].
    fn end(&mut self) -> Result<Buffer>;

    /// Notes that the passes end with the work launched before the last swap began.
    ///
    /// # Errors
    /// What the device reports.
    fn passes_end(&mut self) -> Result<()>;

    /// When the swaps since the last call ran, in the order in which they began, and when the passes had
    /// ended, in milliseconds of one clock. The device has done all of it.
    ///
    /// # Errors
    /// As [`Link::begin`].
    fn take_spans(&mut self) -> Result<(Vec<Span>, f64)>;
}
