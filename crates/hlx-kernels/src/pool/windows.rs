//! The windows of pooling along one axis: the CPU's side of `shaders/pool/windows.glsl`.

use std::ops::Range;

use crate::window::Windows;

/// Which inputs each output of an axis sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub inputs: usize,
    pub outputs: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
    pub adaptive: bool,
}

impl Axis {
    /// The axis of windows over a plane.
    pub fn of(windows: &Windows, axis: usize, outputs: usize) -> Self {
        Self {
            inputs: windows.input[axis],
            outputs,
            kernel: windows.kernel[axis],
            stride: windows.stride[axis],
            padding: windows.padding[axis],
            dilation: windows.dilation[axis],
            adaptive: false,
        }
    }

    /// The axis of windows that cut the inputs into `outputs` parts.
    pub fn adaptive(inputs: usize, outputs: usize) -> Self {
        let windows = Windows {
            input: [inputs; 2],
            kernel: [1; 2],
            stride: [1; 2],
            padding: [0; 2],
            dilation: [1; 2],
        };
        Self {
            adaptive: true,
            ..Self::of(&windows, 0, outputs)
        }
    }

    fn span(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// The inputs that an output sees: the first, and the end of steps of the dilation.
    pub fn window(&self, o: usize) -> Range<usize> {
        if self.adaptive {
            let end = ((o + 1) * self.inputs).div_ceil(self.outputs);
            return o * self.inputs / self.outputs..end;
        }
        let begin = o * self.stride;
        let end = (begin + self.span()).min(self.padding + self.inputs);
        let before = self.padding.saturating_sub(begin);
        let first = begin + before.div_ceil(self.dilation) * self.dilation;
        first - self.padding..end.max(first) - self.padding
    }

    /// How many elements a window has, also those in the padding.
    pub fn padded_length(&self, o: usize) -> usize {
        let begin = o * self.stride;
        (begin + self.kernel).min(self.inputs + 2 * self.padding) - begin
    }

    /// The outputs that may see an input.
    pub fn over(&self, i: usize) -> Range<usize> {
        if self.adaptive {
            let end = ((i + 1) * self.outputs).div_ceil(self.inputs);
            return i * self.outputs / self.inputs..end;
        }
        let at = i + self.padding;
        let first = match at.checked_sub(self.span()) {
            Some(before) => before / self.stride + 1,
            None => 0,
        };
        first..(at / self.stride + 1).min(self.outputs)
    }
}
