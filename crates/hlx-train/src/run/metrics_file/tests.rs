//! What a damaged line costs: itself and no other.

use super::*;

fn eval(step: u64) -> Metric {
    Metric::Eval {
        step,
        split: EvalSplit::HeldOut,
        loss: 1.5,
        perplexity: Some(4.5),
        loss_with_end: Some(1.25),
        n_bytes: Some(9),
        n_tokens: None,
        accuracy: None,
        n_images: None,
    }
}

fn line(step: u64) -> Vec<u8> {
    let mut line = serde_json::to_vec(&eval(step)).expect("writes");
    line.push(b'\n');
    line
}

/// A file of a test, removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("hlx-metrics-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// What is left of these lines when a run continues after `step`.
    fn resumed(&self, lines: &[Vec<u8>], step: u64) -> Vec<u8> {
        std::fs::write(&self.0, lines.concat()).expect("writes");
        drop(MetricsFile::open_after(&self.0, step).expect("opens"));
        std::fs::read(&self.0).expect("reads")
    }

    fn steps(&self) -> Vec<u64> {
        let metrics = read_metrics(&self.0).expect("reads");
        metrics.iter().map(Metric::step).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_a_loss_of_power_leaves_behind_the_checkpoints_lines_is_cut_off() {
    let scratch = Scratch::new("power");
    let path = &scratch.0;
    for end in [&b""[..], b"{\"kind\":\"ev", b"\0\0\0\n\0\0", b"{}\n"] {
        let _ = std::fs::remove_file(path);
        let mut file = MetricsFile::open_after(path, 0).expect("opens");
        for step in [2, 4, 6] {
            assert!(file.append(&eval(step)).expect("appends"));
        }
        let damaged = [std::fs::read(path).expect("reads"), end.to_vec()].concat();
        std::fs::write(path, damaged).expect("writes");
        let mut file = MetricsFile::open_after(path, 4).expect("opens");
        assert!(!file.append(&eval(4)).expect("is there already"));
        assert!(file.append(&eval(6)).expect("appends"));
        assert_eq!(read_metrics(path).expect("reads"), [2, 4, 6].map(eval));
    }
}

type Damage = fn(&mut Vec<u8>);

/// Ways to damage a line that leave it one; each with a part of the reason that is given.
const DAMAGES: [(&str, Damage); 11] = [
    ("expected `:` at byte 8", |line| line[7] = b'x'),
    ("EOF while parsing", |line| {
        _ = line.drain(20..line.len() - 1)
    }),
    ("not UTF-8 at byte 5", |line| line[4] = 0xff),
    ("1 bytes of zeros", |line| line[4] = 0),
    ("expected value", |line| line[0] = b'#'),
    ("trailing characters", |line| {
        _ = line.splice(line.len() - 1.., *b"}\n")
    }),
    ("expected value", |line| replace(line, "1.5", "NaN")),
    ("number out of range", |line| replace(line, "1.5", "1e999")),
    ("invalid type: string \"yyyyyyyy", |line| {
        replace(line, "1.5", &format!("\"{}\"", "y".repeat(1 << 20)));
    }),
    ("missing field `loss`", |line| {
        replace(line, "\"loss\"", "\"less\"")
    }),
    ("unknown variant `oval`", |line| {
        replace(line, "eval", "oval")
    }),
];

fn replace(line: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(line.clone()).expect("text");
    *line = text.replacen(from, to, 1).into_bytes();
}

#[test]
fn a_damaged_line_costs_no_other_wherever_it_lies() {
    let scratch = Scratch::new("damage");
    for (expected, damage) in DAMAGES {
        for place in 0..4 {
            let mut lines = vec![line(2), line(4), line(6), line(8)];
            damage(&mut lines[place]);
            let Content::Damaged(reason) = content(&lines[place]) else {
                panic!("{expected}: is no damage")
            };
            assert!(reason.contains(expected), "{reason}");
            assert!(reason.chars().count() < 150 && !reason.contains(char::is_control));
            let left = [2, 4, 6, 8]
                .into_iter()
                .filter(|step| *step != 2 * place as u64 + 2);
            let left: Vec<u64> = left.collect();
            // With a checkpoint at the end all lines stay as they are; readers step over the damaged one.
            assert_eq!(
                scratch.resumed(&lines, 8),
                lines.concat(),
                "{expected} {place}"
            );
            assert_eq!(scratch.steps(), left, "{expected} {place}");
            // A checkpoint in the middle drops what comes after it, and none before.
            scratch.resumed(&lines, 6);
            let steps = left.iter().copied().filter(|&step| step <= 6);
            assert_eq!(
                scratch.steps(),
                steps.collect::<Vec<_>>(),
                "{expected} {place}"
            );
            let before = lines[..=place.min(2)].concat();
            let found = std::fs::read(&scratch.0).expect("reads");
            assert!(found.starts_with(&before), "{expected} {place}");
        }
    }
}

#[test]
fn a_damaged_line_whose_step_is_legible_and_later_is_dropped() {
    let scratch = Scratch::new("later");
    let mut later = line(6);
    replace(&mut later, "1.5", "x");
    let lines = [line(2), line(4), later, line(8)];
    assert_eq!(scratch.resumed(&lines, 4), lines[..2].concat());
    // A run that begins anew retains nothing.
    let lines = [b"x\n".to_vec(), line(2)];
    assert_eq!(scratch.resumed(&lines, 0), b"");
}

#[test]
fn steps_that_go_backwards_or_come_twice_stay_up_to_the_checkpoint() {
    let scratch = Scratch::new("backwards");
    let lines = [line(2), line(6), line(4), line(4), line(8)];
    let expected = [line(2), line(4), line(4)].concat();
    assert_eq!(scratch.resumed(&lines, 4), expected);
}

#[test]
fn ends_of_lines_and_empty_lines_are_no_damage() {
    let scratch = Scratch::new("ends");
    let mut dos = line(2);
    dos.splice(dos.len() - 1.., *b"\r\n");
    let lines = [dos, b"\n".to_vec(), b" \r\n".to_vec(), line(4)];
    assert_eq!(scratch.resumed(&lines, 4), lines.concat());
    assert_eq!(scratch.steps(), [2, 4]);
    assert!(
        lines[1..3]
            .iter()
            .all(|line| matches!(content(line), Content::Blank))
    );
    // A whole line that has lost its end alone stays, and gets it again.
    let mut cut = line(4);
    cut.pop();
    assert_eq!(
        scratch.resumed(&[line(2), cut], 4),
        [line(2), line(4)].concat()
    );
    let torn = line(4)[..20].to_vec();
    assert_eq!(scratch.resumed(&[line(2), torn], 4), line(2));
}
