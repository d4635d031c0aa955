//! Images as the CPU packs patches from them: with zeros around, and a tap of neighbouring pixels side by side.

use std::ops::Range;

use super::Patches;

/// Places along an axis. The tap k of pixel p is element `p + index` of a phase: strides are cut into
/// phases, one for each place within a stride.
struct Axis {
    /// The phase and the index of each tap.
    taps: Vec<[usize; 2]>,
    /// Phases that taps have.
    phases: usize,
    /// The largest index.
    reach: usize,
    /// The place of element 0 of phase 0 in the image, times the divisor.
    origin: isize,
    scale: usize,
    divide: usize,
    /// Elements of the image.
    image: usize,
}

impl Axis {
    fn new(patches: &Patches, axis: usize) -> Self {
        let (count, step) = (patches.taps[axis], patches.step[axis]);
        let scale = patches.scale[axis].unsigned_abs().max(1);
        let low = (step * (count as isize - 1)).min(0);
        let taps = (0..count as isize).map(|tap| (tap * step - low).unsigned_abs());
        let taps: Vec<_> = taps.map(|at| [at % scale, at / scale]).collect();
        let most = |of: usize| taps.iter().map(|tap| tap[of]).max().unwrap_or(0);
        Self {
            phases: most(0) + 1,
            reach: most(1),
            taps,
            origin: patches.first[axis] + low,
            scale,
            divide: patches.divide[axis],
            image: patches.image[axis],
        }
    }

    /// The place in the image of an element of a phase, if it is inside.
    fn place(&self, phase: usize, index: usize) -> Option<usize> {
        let at = (index * self.scale + phase) as isize + self.origin;
        let at = usize::try_from(at).ok()?;
        let (place, rest) = match self.divide {
            1 => (at, 0),
            divide => (at / divide, at % divide),
        };
        (rest == 0 && place < self.image).then_some(place)
    }

    /// Copies elements of a phase from `first` on out of a row of the image.
    fn copy(&self, image: &[f32], phase: usize, first: usize, to: &mut [f32]) {
        if self.scale != 1 || self.divide != 1 {
            for (index, to) in (first..).zip(to) {
                *to = self.place(phase, index).map_or(0.0, |at| image[at]);
            }
            return;
        }
        let at = (first + phase) as isize + self.origin;
        let reach = |place: usize| to.len().min((place as isize - at).max(0) as usize);
        let (begin, end) = (reach(0), reach(image.len()));
        zero(&mut to[..begin]);
        zero(&mut to[end..]);
        if begin < end {
            let first = (at + begin as isize) as usize;
            to[begin..end].copy_from_slice(&image[first..first + end - begin]);
        }
    }
}

/// Fills a border with zeros. Most have one element or none, which take no call.
fn zero(border: &mut [f32]) {
    match border {
        [] => {}
        [one] => *one = 0.0,
        several => several.fill(0.0),
    }
}

/// The pixels that are staged: all of some rows, or some of one row.
#[derive(Clone)]
pub(super) struct Window {
    rows: Range<usize>,
    columns: Range<usize>,
}

/// The form of staged planes.
pub(super) struct Staging {
    pub patches: Patches,
    axes: [Axis; 2],
}

impl Staging {
    pub fn new(patches: Patches) -> Self {
        let axes = [0, 1].map(|axis| Axis::new(&patches, axis));
        Self { patches, axes }
    }

    /// The window around pixels, of which there is at least one.
    pub fn window(&self, pixels: &Range<usize>) -> Window {
        let width = self.patches.pixels[1];
        let last = pixels.end - 1;
        let rows = pixels.start / width..last / width + 1;
        let columns = match rows.len() {
            1 => pixels.start % width..last % width + 1,
            _ => 0..width,
        };
        Window { rows, columns }
    }

    /// Floats of a plane's window.
    pub fn plane_len(&self, window: &Window) -> usize {
        self.lines(window.rows.len()) * self.line_len(window.columns.len())
    }

    /// The most floats that planes have in windows of so many stretches of pixels, together this many.
    pub fn most(&self, planes: usize, stretches: usize, pixels: usize) -> usize {
        let [height, width] = self.patches.pixels;
        let columns = match height {
            1 => width.min(pixels),
            _ => width,
        };
        let rows = (pixels / width + 2 * stretches).min(stretches * height);
        let lines = rows + stretches * self.axes[0].reach;
        planes * self.axes[0].phases * lines * self.line_len(columns)
    }

    /// Planes that so many neighbouring taps are of at most.
    pub fn most_planes(&self, taps: usize) -> usize {
        let of_group = self.patches.channels / self.patches.groups;
        of_group.min(taps / self.patches.n_taps() + 2)
    }

    fn lines(&self, rows: usize) -> usize {
        self.axes[0].phases * (rows + self.axes[0].reach)
    }

    fn line_len(&self, columns: usize) -> usize {
        self.axes[1].phases * (columns + self.axes[1].reach)
    }

    /// The planes of the taps in a range, counted from a group's first.
    pub fn planes(&self, taps: &Range<usize>) -> Range<usize> {
        let of_plane = self.patches.n_taps();
        taps.start / of_plane..taps.end.div_ceil(of_plane)
    }

    /// Writes the window of some planes of the images to the front of `to`.
    pub fn stage(&self, images: &[f32], planes: Range<usize>, window: &Window, to: &mut [f32]) {
        let [height, width] = self.patches.image;
        let [vertical, horizontal] = &self.axes;
        let (rows, columns) = (&window.rows, &window.columns);
        let run = columns.len() + horizontal.reach;
        let mut lines = to.chunks_exact_mut(horizontal.phases * run);
        for plane in planes {
            let image = &images[plane * height * width..][..height * width];
            for phase in 0..vertical.phases {
                for index in rows.start..rows.end + vertical.reach {
                    let Some(line) = lines.next() else { return };
                    match vertical.place(phase, index) {
                        None => line.fill(0.0),
                        Some(row) => {
                            let row = &image[row * width..][..width];
                            for (phase, to) in line.chunks_exact_mut(run).enumerate() {
                                horizontal.copy(row, phase, columns.start, to);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Where a pixel is, seen from its taps.
    pub fn pixel(&self, window: &Window, pixel: usize) -> usize {
        let [y, x] = self.patches.pixel(pixel);
        (y - window.rows.start) * self.line_len(window.columns.len()) + x - window.columns.start
    }

    /// Where the taps of a window's planes are, from one on; `first_plane` is the first that is staged.
    pub fn taps<'a>(&'a self, window: &Window, first_plane: usize, first: usize) -> TapPlaces<'a> {
        let tap = self.patches.tap(first);
        let run = window.columns.len() + self.axes[1].reach;
        let mut places = TapPlaces {
            axes: &self.axes,
            at: tap.at,
            plane: (tap.channel - first_plane) * self.plane_len(window),
            line: 0,
            run,
            line_len: self.axes[1].phases * run,
            lines: window.rows.len() + self.axes[0].reach,
        };
        places.begin_line();
        places
    }
}

/// The places of taps, one after another.
#[derive(Clone)]
pub(super) struct TapPlaces<'a> {
    axes: &'a [Axis; 2],
    at: [usize; 2],
    /// Where the plane begins, and in it the line of the taps.
    plane: usize,
    line: usize,
    run: usize,
    line_len: usize,
    /// Lines of a phase.
    lines: usize,
}

impl TapPlaces<'_> {
    #[inline(always)]
    fn begin_line(&mut self) {
        let [phase, index] = self.axes[0].taps[self.at[0]];
        self.line = self.plane + (phase * self.lines + index) * self.line_len;
    }
}

impl Iterator for TapPlaces<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let [vertical, horizontal] = self.axes;
        let [phase, index] = horizontal.taps[self.at[1]];
        let place = self.line + phase * self.run + index;
        self.at[1] += 1;
        if self.at[1] == horizontal.taps.len() {
            self.at = [self.at[0] + 1, 0];
            if self.at[0] == vertical.taps.len() {
                self.at[0] = 0;
                self.plane += vertical.phases * self.lines * self.line_len;
            }
            self.begin_line();
        }
        Some(place)
    }
}
