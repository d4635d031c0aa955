//! Where the bits of a run were computed, of an arithmetic that has the same bits on one model of device with one driver.

use hlx_core::{Arithmetic, Device};
pub use hlx_receipt::Place;

/// The place of a device; `None` for an arithmetic that has the same bits everywhere. CPU devices count as one.
pub fn of(arithmetic: Arithmetic, device: &Device) -> Option<Place> {
    let info = device.info();
    (!arithmetic.is_same_everywhere()).then(|| match device.is_cpu() {
        true => Place {
            device: "the CPU device".to_owned(),
            driver: "HLX".to_owned(),
        },
        false => Place {
            device: info.name.clone(),
            driver: info.driver.clone(),
        },
    })
}

/// What is different between where bits were computed and here, as errors say it; `None` if they can be the same.
pub fn differs(arithmetic: Arithmetic, there: Option<&Place>, device: &Device) -> Option<String> {
    let here = of(arithmetic, device)?;
    if there == Some(&here) {
        return None;
    }
    let there = there.map_or_else(|| "no stated device".to_owned(), ToString::to_string);
    Some(format!(
        "computed on {there}, and this is {here}: arithmetic {arithmetic} has the same bits on one device model with one \
         driver alone"
    ))
}

#[cfg(test)]
mod tests {
    use hlx_core::Half;

    use super::*;

    #[test]
    fn another_driver_is_another_place_in_fast_alone() {
        let device = hlx_core::testing::cpu().expect("opens");
        let fast = Arithmetic::Fast(Half::Bf16);
        let here = of(fast, &device).expect("a place");
        assert_eq!(differs(fast, Some(&here), &device), None);
        let other = Place {
            driver: "1.2.3".to_owned(),
            ..here
        };
        let line = differs(fast, Some(&other), &device).expect("differs");
        assert!(
            line.starts_with("computed on the CPU device with driver 1.2.3, and this is "),
            "{line}"
        );
        for arithmetic in Arithmetic::EVERYWHERE {
            assert_eq!(of(arithmetic, &device), None);
            assert_eq!(differs(arithmetic, Some(&other), &device), None);
        }
    }
}
