//! The terminal's view of a run at several sizes, letter by letter. `WRITE_VIEWS=1` writes the files anew.

use std::fs;
use std::path::Path;

use hlx_report::View;
use hlx_train::run::{EvalSplit, Metric};
use hlx_train::train::RunMemory;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn train(step: u64) -> Metric {
    Metric::Train {
        step,
        epoch: step as f64 / 100.0,
        loss: 1.5 + 4.0 / (1.0 + step as f64 / 40.0),
        grad_norm: 0.75,
        learning_rate: 1e-3,
        ms_per_step: 35.5,
        tokens_per_second: Some(21_640.0),
        images_per_second: None,
        skipped: None,
        share_of_peak: None,
        router_balance: None,
        exchange: None,
        memory_bytes: Some(61_349_888),
    }
}

fn eval(step: u64, loss: f64) -> Metric {
    Metric::Eval {
        step,
        split: EvalSplit::HeldOut,
        loss,
        perplexity: None,
        loss_with_end: None,
        n_bytes: Some(9),
        n_tokens: None,
        accuracy: None,
        n_images: None,
    }
}

/// A run in its middle.
fn view() -> View {
    let mut view = View::new("shakespeare".to_owned(), "byte");
    view.subtitle = "867,072 parameters on AMD EPYC [cpu]".to_owned();
    view.state = "training".to_owned();
    view.footer = "q ends the run after its step".to_owned();
    view.progress(0, Some(2000));
    for step in (10..=600).step_by(10) {
        view.metric(&train(step));
        if step % 200 == 0 {
            view.metric(&eval(step, 1.6 + 400.0 / (step as f64 + 100.0)));
        }
    }
    view.metric(&Metric::Sample {
        step: 600,
        prompt: "ROMEO:\n".to_owned(),
        text: "What light\tthrough yonder window\u{1b}[2J breaks?\nIt is the east.".to_owned(),
    });
    view.message("checkpoint of step 400 in runs/shakespeare/checkpoints\n\nWARN something\u{7}");
    view
}

fn drawn(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view.draw(frame)).expect("draws");
    let buffer = terminal.backend().buffer();
    let row = |y: u16| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..height)
        .map(|y| row(y).trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn views_are_what_they_were() {
    let mut known = view();
    known.memory = Some(RunMemory {
        device: "AMD EPYC".to_owned(),
        device_bytes: 24 << 30,
        state_bytes: 32 << 20,
        host_bytes: 0,
        pass_bytes: 26 << 20,
        micro_batch_size: 12,
        smaller: Vec::new(),
    });
    let empty = View::new("new".to_owned(), "token");
    for (name, view, width, height) in [
        ("80x24", &known, 80, 24),
        ("120x40", &known, 120, 40),
        ("50x12", &known, 50, 12),
        ("48x30", &view(), 48, 30),
        ("empty-80x24", &empty, 80, 24),
    ] {
        let found = drawn(view, width, height);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/views/{name}.txt"));
        if std::env::var_os("WRITE_VIEWS").is_some() {
            fs::write(&file, &found).expect("written");
        }
        let expected = fs::read_to_string(&file).expect("reads");
        assert_eq!(found, expected, "{name}:\n{found}");
    }
}

#[test]
fn every_size_can_be_drawn() {
    let view = view();
    for width in (1..=12).chain([29, 59, 60, 61, 80, 200]) {
        for height in (1..=24).chain([33, 34, 60]) {
            let found = drawn(&view, width, height);
            assert_eq!(found.lines().count(), usize::from(height));
            assert!(!found.contains('\u{1b}') && !found.contains('\u{7}'));
        }
    }
}

#[test]
fn a_run_that_goes_back_is_forgotten_and_time_left_follows_its_pace() {
    let mut view = view();
    // 1,400 steps of 35.5 ms.
    assert_eq!(view.time_left().map(|left| left.as_millis()), Some(49_700));
    view.forget();
    view.metric(&train(200));
    assert_eq!(view.step(), 200);
    view.pace(1000.0);
    assert_eq!(view.time_left().map(|left| left.as_millis()), Some(63_900));
}
