//! Strokes to pixels by whole numbers: a pixel's brightness follows its distance from the nearest
//! stroke, over a width of one pixel, so that edges are smooth.

/// The length of a pixel's side.
pub(super) const PIXEL: i32 = 256;
/// Straight pieces of each arc of a stroke.
const PIECES: i32 = 5;
/// The distance beyond which a stroke changes no pixel, from its middle line.
const REACH: i32 = 3 * PIXEL;

/// x to the right, y down, in 1/256 of a pixel.
pub(super) type Point = (i32, i32);

/// The squared distance of each pixel's centre from the nearest stroke.
pub(super) struct Canvas {
    width: usize,
    squares: Vec<u32>,
}

impl Canvas {
    /// No stroke yet.
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            squares: vec![u32::MAX; width * height],
        }
    }

    /// Adds a stroke along a quadratic B-spline: its arcs lead from the middle between two points to
    /// the next middle, pulled toward the point between. A point that stands twice is a corner. An open
    /// stroke begins at its first point and ends at its last one.
    pub fn stroke(&mut self, points: &[Point], closed: bool) {
        let n = points.len();
        if closed {
            for at in 0..n {
                let (before, after) = (points[(at + n - 1) % n], points[(at + 1) % n]);
                let here = points[at];
                self.arc(middle(before, here), here, middle(here, after));
            }
            return;
        }
        for at in 0..n.saturating_sub(1) {
            let (here, next) = (points[at], points[at + 1]);
            let start = if at == 0 {
                here
            } else {
                middle(points[at - 1], here)
            };
            self.arc(start, here, middle(here, next));
            if at + 2 == n {
                self.piece(middle(here, next), next);
            }
        }
    }

    /// The quadratic Bezier curve of three points, in straight pieces.
    fn arc(&mut self, start: Point, control: Point, end: Point) {
        let at = |t: i32| {
            let s = PIECES - t;
            let mix = |a: i32, b: i32, c: i32| {
                (s * s * a + 2 * s * t * b + t * t * c) / (PIECES * PIECES)
            };
            (
                mix(start.0, control.0, end.0),
                mix(start.1, control.1, end.1),
            )
        };
        for t in 0..PIECES {
            self.piece(at(t), at(t + 1));
        }
    }

    /// A straight piece: lowers the distances of the pixels around it.
    fn piece(&mut self, start: Point, end: Point) {
        let height = self.squares.len() / self.width;
        let columns = pixels(start.0, end.0, self.width);
        for y in pixels(start.1, end.1, height) {
            let row = &mut self.squares[y * self.width..][..self.width];
            for x in columns.clone() {
                let centre = (x as i32 * PIXEL + PIXEL / 2, y as i32 * PIXEL + PIXEL / 2);
                row[x] = row[x].min(square_distance(centre, start, end));
            }
        }
    }

    /// Writes the image: full ink up to `radius` less half a pixel from a stroke, none from half a
    /// pixel more on.
    pub fn fill(&self, radius: i32, ink: u8, image: &mut [u8]) {
        for (pixel, &square) in image.iter_mut().zip(&self.squares) {
            let distance = square.isqrt() as i32;
            let cover = (radius + PIXEL / 2)
                .saturating_sub(distance)
                .clamp(0, PIXEL);
            *pixel = (cover * i32::from(ink) / PIXEL) as u8;
        }
    }
}

/// The pixels, along one axis, that a piece from `a` to `b` can reach.
fn pixels(a: i32, b: i32, extent: usize) -> std::ops::Range<usize> {
    let place = |at: i32| (at / PIXEL).clamp(0, extent as i32) as usize;
    place(a.min(b) - REACH)..place(a.max(b) + REACH + PIXEL)
}

fn middle(a: Point, b: Point) -> Point {
    ((a.0 + b.0) >> 1, (a.1 + b.1) >> 1)
}

/// The square of the distance of a point from a straight piece.
fn square_distance(point: Point, start: Point, end: Point) -> u32 {
    let (ex, ey) = (i64::from(end.0 - start.0), i64::from(end.1 - start.1));
    let (dx, dy) = (i64::from(point.0 - start.0), i64::from(point.1 - start.1));
    let length = ex * ex + ey * ey;
    let along = (dx * ex + dy * ey).clamp(0, length);
    let (fx, fy) = match length {
        0 => (0, 0),
        _ => (ex * along / length, ey * along / length),
    };
    let (rx, ry) = (dx - fx, dy - fy);
    u32::try_from(rx * rx + ry * ry).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_geometry() {
        let cases = [
            ((0, 300), (-500, 0), (500, 0), 300.0),
            ((800, 400), (-500, 0), (500, 0), 500.0),
            ((3, 4), (0, 0), (0, 0), 5.0),
            ((1000, 0), (0, 0), (1000, 1000), 707.1),
        ];
        for (point, start, end, expected) in cases {
            let found = f64::from(square_distance(point, start, end)).sqrt();
            assert!((found - expected).abs() < 1.0, "{found} for {expected}");
        }
    }

    #[test]
    fn an_edge_falls_over_the_width_of_a_pixel() {
        let mut canvas = Canvas::new(9, 7);
        let y = 3 * PIXEL + PIXEL / 2;
        canvas.stroke(&[(0, y), (9 * PIXEL, y)], false);
        let mut image = [0; 63];
        canvas.fill(PIXEL, 200, &mut image);
        let column: Vec<u8> = (0..7).map(|row| image[9 * row + 4]).collect();
        assert_eq!(column, [0, 0, 100, 200, 100, 0, 0]);
    }

    #[test]
    fn a_closed_stroke_comes_back_to_its_start_and_an_open_one_does_not() {
        let square = [
            (2 * PIXEL, 2 * PIXEL),
            (14 * PIXEL, 2 * PIXEL),
            (14 * PIXEL, 14 * PIXEL),
            (2 * PIXEL, 14 * PIXEL),
        ];
        let left = |closed| {
            let mut canvas = Canvas::new(16, 16);
            canvas.stroke(&square, closed);
            let mut image = [0; 256];
            canvas.fill(PIXEL, 255, &mut image);
            image[16 * 8 + 2]
        };
        assert!(left(true) > 100 && left(false) == 0);
    }
}
