//! How the taps of a convolution lie.

use crate::ops::join::Padding;
use crate::{AutogradError, Result, Tensor};

/// How the taps of a convolution lie; pairs are of height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// Pixels from one patch to the next.
    pub stride: [usize; 2],
    /// Zeros around the image, on each side.
    pub padding: [usize; 2],
    /// Pixels from one tap to the next.
    pub dilation: [usize; 2],
    /// Parts that the channels of both sides are cut into; a part sees its counterpart alone.
    pub groups: usize,
    /// Puts as many zeros around the image as give the output its extents, one more at the end than at
    /// the start where their number is odd: PyTorch's `padding="same"`. The stride is 1 then, and
    /// `padding` 0. (`padding="valid"` is a padding of 0.)
    pub same: bool,
}

impl ConvOptions {
    /// The options of a convolution of signals: the second of each pair.
    pub(super) fn flat(&self) -> Self {
        Self {
            stride: [1, self.stride[1]],
            padding: [0, self.padding[1]],
            dilation: [1, self.dilation[1]],
            groups: self.groups,
            same: self.same,
        }
    }

    /// The image with the one more row and column of zeros that `same` may need at its end, and the
    /// options without `same`; both as they are where it is not asked for.
    pub(super) fn same_padded(
        &self,
        op: &'static str,
        x: &Tensor,
        taps: [usize; 2],
    ) -> Result<(Tensor, Self)> {
        if !self.same {
            return Ok((x.clone(), *self));
        }
        if self.stride != [1, 1] || self.padding != [0, 0] {
            let (stride, padding) = (self.stride, self.padding);
            let reason = format!(
                "stride is {stride:?} and padding {padding:?} with `same`, expected [1, 1] and [0, 0]"
            );
            return Err(AutogradError::Argument { op, reason });
        }
        let zeros = [0, 1].map(|axis| self.dilation[axis] * taps[axis].saturating_sub(1));
        let more = zeros.map(|zeros| (zeros % 2) as isize);
        let options = Self {
            padding: zeros.map(|zeros| zeros / 2),
            same: false,
            ..*self
        };
        match more {
            [0, 0] => Ok((x.clone(), options)),
            [down, right] => {
                let widths = [(0, right), (0, down)];
                Ok((x.pad(&widths, Padding::Constant(0.0))?, options))
            }
        }
    }
}

impl Default for ConvOptions {
    /// Stride 1, no padding, dilation 1, one group: PyTorch's defaults.
    fn default() -> Self {
        Self {
            stride: [1, 1],
            padding: [0, 0],
            dilation: [1, 1],
            groups: 1,
            same: false,
        }
    }
}
