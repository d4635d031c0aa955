//! How a tensor is printed: its elements as PyTorch prints them.

use std::fmt;

use half::{bf16, f16};
use hlx_core::{Bool, DType};

use crate::{Result, Tensor};

/// Above this many elements only the edges are printed.
const SUMMARISED_FROM: usize = 1000;

/// Elements that a summary shows at each end of a dimension.
const EDGE: usize = 3;

/// Columns of a line.
const LINE_WIDTH: usize = 80;

impl fmt::Display for Tensor {
    /// Prints `tensor([[1.0000, 2.0000], ...])`; downloads the elements that are shown, and waits for
    /// the device.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut notes = Vec::new();
        if self.dtype() != DType::F32 {
            notes.push(format!("dtype={}", self.dtype()));
        }
        if self.requires_grad() {
            notes.push("requires_grad".to_owned());
        }
        match self.printed("tensor(", &notes) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "tensor(<{error}>)"),
        }
    }
}

impl Tensor {
    /// Prints the elements as PyTorch does, after `opening`, which ends in a parenthesis, and before `notes`, such as
    /// `dtype=..`, each of which goes to a line of its own where it would pass the line's end.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(
        x: "let text = x.sum()?.printed(\"tensor(\", &[\"device='cpu'\".to_owned()])?;",
        "assert_eq!(text, \"tensor(21., device='cpu')\");"
    )]
    pub fn printed(&self, opening: &str, notes: &[String]) -> Result<String> {
        let mut text = opening.to_owned();
        if self.n_elements() == 0 {
            text += "[]";
            let extents: Vec<String> = self.shape().iter().map(usize::to_string).collect();
            if self.rank() != 1 {
                text += &format!(", size=({})", extents.join(", "));
            }
        } else {
            let summary = self.n_elements() > SUMMARISED_FROM;
            let (cells, width) = self.cells()?;
            let mut cells = cells.into_iter();
            text += &nested(
                &mut cells,
                self.shape(),
                (summary, width),
                opening.len() + 1,
            );
        }
        let indent = " ".repeat(opening.len());
        for note in notes {
            let line = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
            text += match line + note.len() + 4 > LINE_WIDTH {
                true => ",\n",
                false => ", ",
            };
            if text.ends_with('\n') {
                text += &indent;
            }
            text += note;
        }
        Ok(text + ")")
    }
}

impl Tensor {
    /// The elements that are shown, as text, and the width by which lines are broken.
    fn cells(&self) -> Result<(Vec<String>, usize)> {
        let mut shown = self.detach();
        if self.n_elements() > SUMMARISED_FROM {
            for axis in 0..self.rank() {
                shown = shown.edges(axis)?;
            }
        }
        let words = |text: Vec<String>| aligned(text);
        Ok(match self.dtype() {
            DType::F32 => floats(&shown.to_vec::<f32>()?),
            DType::F16 => floats(&converted(&shown.to_vec::<f16>()?, f16::to_f32)),
            DType::BF16 => floats(&converted(&shown.to_vec::<bf16>()?, bf16::to_f32)),
            DType::I32 => words(converted(&shown.to_vec::<i32>()?, |v| v.to_string())),
            DType::U32 => words(converted(&shown.to_vec::<u32>()?, |v| v.to_string())),
            DType::I8 => words(converted(&shown.to_vec::<i8>()?, |v| v.to_string())),
            DType::U8 => words(converted(&shown.to_vec::<u8>()?, |v| v.to_string())),
            DType::Bool => words(converted(&shown.to_vec::<Bool>()?, |v| {
                if bool::from(v) { "True" } else { "False" }.to_owned()
            })),
        })
    }

    /// The first and the last elements along a dimension that is too long to print.
    fn edges(&self, axis: usize) -> Result<Tensor> {
        let extent = self.shape()[axis];
        if extent <= 2 * EDGE {
            return Ok(self.clone());
        }
        let mut shape = self.shape().to_vec();
        shape[axis] = 2;
        shape.insert(axis + 1, EDGE);
        // Windows of three, as far apart as the last is from the first.
        let windows = self.unfold(axis as isize, EDGE, extent - EDGE)?;
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        order.insert(axis + 1, self.rank() as isize);
        shape[axis] = 2 * EDGE;
        shape.remove(axis + 1);
        windows.permute(&order)?.reshape(&shape)
    }
}

fn converted<T: Copy, U>(values: &[T], convert: impl Fn(T) -> U) -> Vec<U> {
    values.iter().map(|&value| convert(value)).collect()
}

/// Prints floats alike: whole numbers with a point, others with four decimals, and all in
/// scientific notation where they lie too far apart.
fn floats(values: &[f32]) -> (Vec<String>, usize) {
    let finite = values.iter().filter(|value| value.is_finite());
    let sizes = finite
        .clone()
        .map(|value| value.abs())
        .filter(|&size| size > 0.0);
    let largest = sizes.clone().fold(0.0, f32::max);
    let smallest = sizes.fold(f32::INFINITY, f32::min);
    let whole = finite.clone().all(|value| value.fract() == 0.0);
    let far = largest > 1e8 || largest > 1000.0 * smallest;
    let scientific = far || (!whole && smallest < 1e-4);
    let print = |&value: &f32| match value {
        value if value.is_nan() => "nan".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.to_owned(),
        value if scientific => exponent(value),
        value if whole => format!("{value:.0}."),
        value => format!("{value:.4}"),
    };
    // As in PyTorch, NaN and infinity do not widen the others.
    let wide = finite
        .filter(|&&value| value != 0.0)
        .map(|value| print(value).len());
    let width = wide.max().unwrap_or(1);
    let cells = values
        .iter()
        .map(|value| format!("{:>width$}", print(value)));
    (cells.collect(), width)
}

/// C's `%.4e`: an exponent with a sign and two digits.
fn exponent(value: f32) -> String {
    let text = format!("{value:.4e}");
    match text.split_once('e') {
        Some((digits, power)) => {
            let (sign, power) = match power.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', power),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
        None => text,
    }
}

fn aligned(cells: Vec<String>) -> (Vec<String>, usize) {
    let width = cells.iter().map(String::len).max().unwrap_or(1);
    let cells = cells.into_iter().map(|cell| format!("{cell:>width$}"));
    (cells.collect(), width)
}

/// Nests the cells in brackets by the shape.
fn nested(
    cells: &mut impl Iterator<Item = String>,
    shape: &[usize],
    (summary, width): (bool, usize),
    indent: usize,
) -> String {
    let Some((&extent, inner)) = shape.split_first() else {
        return cells.next().unwrap_or_default();
    };
    let cut = summary && extent > 2 * EDGE;
    let shown = if cut { 2 * EDGE } else { extent };
    let mut parts = Vec::with_capacity(shown + 1);
    for index in 0..shown {
        if cut && index == EDGE {
            parts.push(if inner.is_empty() { " ..." } else { "..." }.to_owned());
        }
        parts.push(nested(cells, inner, (summary, width), indent + 1));
    }
    let joined = match inner.len() {
        0 => wrapped(&parts, width, indent),
        depth => {
            let line = format!(",{}{}", "\n".repeat(depth), " ".repeat(indent));
            parts.join(&line)
        }
    };
    format!("[{joined}]")
}

/// Breaks a row of cells into lines, as many cells in each as fit if all are `width` wide.
fn wrapped(cells: &[String], width: usize, indent: usize) -> String {
    let a_line = ((LINE_WIDTH + 1).saturating_sub(indent) / (width + 2)).max(1);
    let lines: Vec<String> = cells.chunks(a_line).map(|line| line.join(", ")).collect();
    lines.join(&format!(",\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use crate::Tensor;

    fn shown(values: &[f32], shape: &[usize]) -> String {
        let device = hlx_core::testing::devices()[0].clone();
        Tensor::from_slice(&device, values, shape)
            .expect("uploads")
            .to_string()
    }

    /// The texts are those of PyTorch 2.11's `print` (with `requires_grad=True` shortened).
    #[test]
    fn tensors_print_as_in_pytorch() {
        assert_eq!(shown(&[1.5], &[]), "tensor(1.5000)");
        assert_eq!(shown(&[1.0, 2.0, -3.0], &[3]), "tensor([ 1.,  2., -3.])");
        assert_eq!(
            shown(&[1.0, 2.5, 3.0, 4.0], &[2, 2]),
            "tensor([[1.0000, 2.5000],\n        [3.0000, 4.0000]])"
        );
        assert_eq!(
            shown(&[1e-5, 2.0], &[2]),
            "tensor([1.0000e-05, 2.0000e+00])"
        );
        assert_eq!(shown(&[f32::NAN, 1.0], &[2]), "tensor([nan, 1.])");
        assert_eq!(shown(&[], &[0, 3]), "tensor([], size=(0, 3))");
    }

    #[test]
    fn a_large_tensor_shows_its_edges() {
        let values: Vec<f32> = (0..2000).map(|i| i as f32).collect();
        assert_eq!(
            shown(&values, &[2000]),
            "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        \
             1.9990e+03])"
        );
        let rows = shown(&values, &[1000, 2]);
        assert!(
            rows.contains("5.0000e+00],\n        ...,\n        [1.9940e+03,"),
            "{rows}"
        );
    }
}
