//! The marks of a picture's axes: round numbers, at least three on each.

/// Marks that an axis of losses has at most.
const MOST: usize = 12;
/// Marks that an axis has at least.
const FEWEST: usize = 3;

/// Losses between two powers of ten, and what stands beside them: 1, 2 and 5 times powers of ten, powers alone of a
/// long scale, and of a short one losses that are equally far apart.
pub fn loss_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let decades = high.ceil() - low.floor();
    let fine = match decades > 4.0 {
        true => Vec::new(),
        false => within(low, high, &[1, 2, 5], 1),
    };
    if fine.len() >= FEWEST {
        return fine;
    }
    if decades > 4.0 {
        // The stride takes the powers to at most twelve.
        let stride = (decades / MOST as f64).ceil().max(1.0) as usize;
        let powers = within(low, high, &[1], stride);
        if powers.len() >= FEWEST {
            return powers;
        }
    }
    even(10_f64.powf(low), 10_f64.powf(high))
}

/// Digits times every `stride`th power of ten.
fn within(low: f64, high: f64, digits: &[u32], stride: usize) -> Vec<(f64, String)> {
    let powers = (low.floor() as i32..=high.ceil() as i32).step_by(stride);
    let ticks = powers.flat_map(|power| digits.iter().map(move |digit| format!("{digit}e{power}")));
    let ticks = ticks.filter_map(|text| {
        // The text of a decimal is read back, so that 0.02 is written as such.
        let tick: f64 = text.parse().ok()?;
        let label = match (1e-4..1e6).contains(&tick) {
            true => tick.to_string(),
            false => text,
        };
        (low..=high)
            .contains(&tick.log10())
            .then_some((tick, label))
    });
    ticks.collect()
}

/// At least three losses that are equally far apart.
fn even(low: f64, high: f64) -> Vec<(f64, String)> {
    let mut stride = stride_of((high - low) / FEWEST as f64);
    let count = |stride: f64| (high / stride).floor() - (low / stride).ceil() + 1.0;
    while count(stride) < FEWEST as f64 {
        stride /= 2.0;
    }
    let decimals = (-stride.log10().floor()).max(0.0) as usize + 1;
    let (first, last) = ((low / stride).ceil() as u64, (high / stride).floor() as u64);
    let ticks = (first..=last).map(|number| number as f64 * stride);
    ticks
        .map(|tick| {
            let label = format!("{tick:.decimals$}");
            (
                tick,
                label.trim_end_matches('0').trim_end_matches('.').to_owned(),
            )
        })
        .collect()
}

/// Round steps from 0 to the last, about six of them.
pub fn step_ticks(last_step: f64) -> Vec<f64> {
    let stride = stride_of((last_step / 6.0).max(1.0));
    let count = (last_step / stride).floor() as u64;
    (0..=count).map(|tick| tick as f64 * stride).collect()
}

/// Round values between two numbers of a linear scale, about five of them.
pub fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let stride = stride_of((high - low) / 5.0);
    let (first, last) = ((low / stride).ceil() as i64, (high / stride).floor() as i64);
    (first..=last)
        .map(|number| number as f64 * stride)
        .collect()
}

/// The least of 1, 2 and 5 times the powers of ten that is not below a number.
fn stride_of(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let strides = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    strides
        .into_iter()
        .find(|stride| *stride >= rough)
        .unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            step_ticks(1200.0),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]
        );
        let labels = |low: f64, high: f64| {
            let ticks = loss_ticks(low, high);
            ticks
                .into_iter()
                .map(|(_, label)| label)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            labels(-2.0, 0.5),
            ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]
        );
        assert_eq!(
            labels(-7.05, 0.0),
            [
                "1e-7", "1e-6", "1e-5", "0.0001", "0.001", "0.01", "0.1", "1"
            ]
        );
        assert_eq!(labels(0.72, 0.76), ["5.3", "5.4", "5.5", "5.6", "5.7"]);
        assert_eq!(labels(0.31, 0.41), ["2.1", "2.2", "2.3", "2.4", "2.5"]);
    }
}
