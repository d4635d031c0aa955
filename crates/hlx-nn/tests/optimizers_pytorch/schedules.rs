//! Schedules against the rates of PyTorch.

use super::*;

fn schedules() -> Vec<(&'static str, Schedule)> {
    let one_cycle = OneCycle::new(60);
    let three = OneCycle {
        pct_start: 0.2,
        div_factor: 10.0,
        final_div_factor: 100.0,
        three_phase: true,
        ..one_cycle
    };
    let linear = OneCycle {
        linear: true,
        ..one_cycle
    };
    let cosine = |t_max, eta_min| Schedule::Cosine { t_max, eta_min };
    let restarts = |t_0, t_mult, eta_min| Schedule::CosineWarmRestarts {
        t_0,
        t_mult,
        eta_min,
    };
    vec![
        (
            "step",
            Schedule::Step {
                step_size: 7,
                gamma: 0.3,
            },
        ),
        (
            "multi_step",
            Schedule::MultiStep {
                milestones: vec![5, 20, 20, 41],
                gamma: 0.5,
            },
        ),
        ("exponential", Schedule::Exponential { gamma: 0.93 }),
        (
            "linear",
            Schedule::Linear {
                start_factor: 0.25,
                end_factor: 0.75,
                total_iters: 31,
            },
        ),
        ("cosine", cosine(23, 0.01)),
        ("warm_restarts", restarts(6, 2, 0.02)),
        ("warm_restarts_even", restarts(11, 1, 0.0)),
        ("one_cycle", Schedule::OneCycle(one_cycle)),
        ("one_cycle_three", Schedule::OneCycle(three)),
        ("one_cycle_linear", Schedule::OneCycle(linear)),
        (
            "warmup",
            Schedule::Warmup {
                steps: 8,
                then: Box::new(cosine(52, 0.0)),
            },
        ),
    ]
}

#[test]
fn schedules_have_pytorchs_rates() -> Result<(), Error> {
    let fixture = fixture()?;
    for (name, schedule) in schedules() {
        schedule.check()?;
        for (step, expected) in fixture[&format!("rates.{name}")].iter().enumerate() {
            let found = schedule.rate(0.4, step as u64);
            let distance = (found - expected).abs();
            assert!(
                distance < 1e-6 * expected + 5e-8,
                "{name} {step}: {found} {expected}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_plateau_has_pytorchs_rates() -> Result<(), Error> {
    let fixture = fixture()?;
    let falling = PlateauConfig {
        patience: 2,
        factor: 0.5,
        threshold: 0.05,
        ..PlateauConfig::default()
    };
    let rising = PlateauConfig {
        maximize: true,
        absolute: true,
        threshold: 0.1,
        patience: 1,
        cooldown: 3,
        min_lr: 0.03,
        ..PlateauConfig::default()
    };
    for (name, config) in [("plateau", falling), ("plateau_max", rising)] {
        let mut plateau = Plateau::new(0.4, config)?;
        let expected = &fixture[&format!("rates.{name}")];
        for (value, expected) in fixture["plateau.values"].iter().zip(expected) {
            plateau.observe(*value);
            assert!(
                (plateau.rate() - expected).abs() < 1e-15,
                "{name} {expected}"
            );
        }
        assert!(plateau.rate() < 0.4, "{name} never fell");
    }
    Ok(())
}
