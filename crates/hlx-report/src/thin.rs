//! Fewer points of a long curve, without an extreme lost: of each pixel column the first, the least, the greatest and
//! the last.

/// A point: a step and a value.
pub type Point = (f64, f64);

/// A curve as it is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thinned {
    /// Pieces without a gap; a value that is not finite ends one.
    pub pieces: Vec<Vec<Point>>,
    /// Points that could be drawn.
    pub n_points: usize,
    /// Points that could not: not finite or, on a logarithmic scale, not above 0.
    pub n_left_out: usize,
    /// Columns that the points were gathered in, where they were.
    pub columns: Option<usize>,
}

/// Thins a curve whose steps rise. `shown` tells which values can be drawn.
pub fn thin(
    points: &[Point],
    columns: usize,
    steps: (f64, f64),
    shown: impl Fn(f64) -> bool,
) -> Thinned {
    let n_points = points.iter().filter(|point| shown(point.1)).count();
    let mut thinned = Thinned {
        n_points,
        n_left_out: points.len() - n_points,
        ..Thinned::default()
    };
    let pieces = points.split(|point| !shown(point.1));
    let pieces = pieces.filter(|piece| !piece.is_empty());
    if n_points <= 2 * columns {
        thinned.pieces = pieces.map(<[Point]>::to_vec).collect();
        return thinned;
    }
    thinned.columns = Some(columns);
    let width = (steps.1 - steps.0).max(f64::MIN_POSITIVE) / columns as f64;
    let column = |point: &Point| ((point.0 - steps.0) / width).floor() as i64;
    thinned.pieces = pieces
        .map(|piece| {
            let in_columns = piece.chunk_by(|a, b| column(a) == column(b));
            in_columns.flat_map(of_column).collect()
        })
        .collect();
    thinned
}

/// The mean step and the mean value of what can be drawn in each of `n` equal parts of the steps.
pub fn means(
    points: &[Point],
    n: usize,
    steps: (f64, f64),
    shown: impl Fn(f64) -> bool,
) -> Vec<Point> {
    let width = ((steps.1 - steps.0) / n as f64).max(f64::MIN_POSITIVE);
    let part = |point: &Point| (((point.0 - steps.0) / width).floor() as usize).min(n - 1);
    let drawn = points.iter().copied().filter(|point| shown(point.1));
    let drawn: Vec<Point> = drawn.collect();
    let in_parts = drawn.chunk_by(|a, b| part(a) == part(b));
    let mean = |part: &[Point]| {
        let (step, value) = part
            .iter()
            .fold((0.0, 0.0), |(a, b), (step, value)| (a + step, b + value));
        (step / part.len() as f64, value / part.len() as f64)
    };
    in_parts.map(mean).collect()
}

/// The first, least, greatest and last point of a column, in the order of their steps, each once.
fn of_column(points: &[Point]) -> Vec<Point> {
    let by_value = |a: &(usize, &Point), b: &(usize, &Point)| a.1.1.total_cmp(&b.1.1);
    let least = points.iter().enumerate().min_by(by_value);
    let greatest = points.iter().enumerate().max_by(by_value);
    let mut places = vec![0, points.len() - 1];
    places.extend(least.into_iter().chain(greatest).map(|(place, _)| place));
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|place| points[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_columns_extremes_stay() {
        let n = 100_000;
        let value = |step: usize| ((step * 7919) % 10_007) as f64;
        let points: Vec<Point> = (0..n).map(|step| (step as f64, value(step))).collect();
        let columns = 640;
        let thinned = thin(&points, columns, (0.0, n as f64), f64::is_finite);
        assert_eq!((thinned.n_points, thinned.columns), (n, Some(columns)));
        assert_eq!(thinned.pieces.len(), 1);
        let kept = &thinned.pieces[0];
        assert!(kept.len() <= 4 * columns, "{}", kept.len());
        assert!(kept.iter().all(|point| points[point.0 as usize] == *point));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let width = n as f64 / columns as f64;
        for column in 0..columns {
            let of = |points: &[Point]| {
                let inside = points.iter();
                let inside = inside.filter(|point| (point.0 / width).floor() as usize == column);
                let values: Vec<f64> = inside.map(|point| point.1).collect();
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                (least, values.iter().copied().fold(0.0, f64::max))
            };
            assert_eq!(of(kept), of(&points), "column {column}");
        }
    }

    #[test]
    fn means_are_of_what_can_be_drawn() {
        let points: Vec<Point> = (0..100)
            .map(|step| (f64::from(step), f64::from(step % 10)))
            .collect();
        let found = means(&points, 10, (0.0, 100.0), f64::is_finite);
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|point| point.1 == 4.5), "{found:?}");
        assert_eq!(found[3].0, 34.5);
        let points = [
            (0.0, 1.0),
            (1.0, f64::NAN),
            (2.0, 3.0),
            (90.0, 5.0),
            (100.0, 7.0),
        ];
        let found = means(&points, 10, (0.0, 100.0), f64::is_finite);
        assert_eq!(found, [(1.0, 2.0), (95.0, 6.0)]);
    }

    #[test]
    fn what_cannot_be_drawn_is_a_gap_and_counted() {
        let points = [(1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 5.0)];
        let thinned = thin(&points, 100, (0.0, 4.0), f64::is_finite);
        assert_eq!(
            thinned.pieces,
            [vec![(1.0, 2.0)], vec![(3.0, 4.0), (4.0, 5.0)]]
        );
        assert_eq!((thinned.n_left_out, thinned.columns), (1, None));
    }
}
