//! `cargo xtask cast`: runs the commands of the book's first chapter, and draws what they print as an animated SVG.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::command::{self, step};
use crate::{Outcome, files};

pub const HELP: &str = "\
cargo xtask cast

Builds hlx, runs its commands of docs/ten-minutes.md in an empty folder and writes docs/cast.svg: what they
printed, in the order and at the pace in which they did, where pauses of more than a second are cut to one.";

const PAGE: &str = "docs/ten-minutes.md";
const PICTURE: &str = "docs/cast.svg";
/// Of the terminal that is drawn.
const COLUMNS: usize = 100;
const ROWS: usize = 24;
/// The longest pause that is shown, and how long the end stays, in seconds.
const LONGEST_PAUSE: f64 = 1.0;
const END: f64 = 6.0;
/// Pixels of a letter and of a line.
const LETTER: f64 = 7.8;
const LINE: f64 = 17.0;

/// A line and the second at which it appears.
struct Shown {
    second: f64,
    text: String,
    is_command: bool,
}

pub fn run(args: &[String]) -> Outcome {
    if let Some(argument) = args.first() {
        return Err(crate::unknown_argument("cast", argument));
    }
    let root = command::root();
    command::build("hlx", &["-p", "hlx-cli"])?;
    let page = pages::blocks(&files::text(&root.join(PAGE))?)?;
    let blocks = page
        .iter()
        .filter(|block| block.language == "sh" && !block.is_hidden);
    let commands = blocks.flat_map(|block| pages::commands(&block.code));
    let commands: Vec<_> = commands
        .filter(|line| !pages::calls(line, "hlx").is_empty())
        .collect();
    let shown = step("the commands", || record(&root, &commands))?;
    files::write(&root.join(PICTURE), draw(&shown).as_bytes())?;
    println!(
        "{} lines of {} commands in {PICTURE}",
        shown.len(),
        commands.len()
    );
    Ok(0)
}

/// Runs the commands in a folder of their own; a command that fails ends the recording.
fn record(root: &Path, commands: &[String]) -> Result<Vec<Shown>, String> {
    let folder = root.join("target/cast");
    let cannot = |error: std::io::Error| format!("cannot prepare {}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(cannot)?;
    }
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    for part in ["configs", "data"] {
        crate::book::copy_folder(&root.join(part), &folder.join(part))?;
    }
    let built = command::built("hlx");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = built.parent().map(Path::to_path_buf).into_iter();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)));
    let path = path.map_err(|error| format!("PATH: {error}"))?;
    let (mut shown, mut second) = (Vec::new(), 0.0);
    for command in commands {
        for text in wrapped(&format!("$ {command}")) {
            shown.push(Shown {
                second,
                text,
                is_command: true,
            });
        }
        let mut last = Instant::now();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(&folder)
            .env("PATH", &path);
        let mut child = shell.stdout(Stdio::piped()).spawn().map_err(cannot)?;
        for line in child
            .stdout
            .take()
            .map(BufReader::new)
            .into_iter()
            .flat_map(BufRead::lines)
        {
            let line = line.map_err(cannot)?;
            second += last.elapsed().as_secs_f64().min(LONGEST_PAUSE);
            last = Instant::now();
            for text in wrapped(&line) {
                shown.push(Shown {
                    second,
                    text,
                    is_command: false,
                });
            }
        }
        if !child.wait().map_err(cannot)?.success() {
            return Err(format!("cast: `{command}` failed"));
        }
        second += last
            .elapsed()
            .as_secs_f64()
            .clamp(LONGEST_PAUSE, LONGEST_PAUSE);
    }
    Ok(shown)
}

/// A line as a terminal shows it: in pieces of its width.
fn wrapped(line: &str) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    if letters.is_empty() {
        return vec![String::new()];
    }
    letters
        .chunks(COLUMNS)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// The picture: every line appears at its time; all of them move up by what the terminal has no row for.
fn draw(shown: &[Shown]) -> String {
    let (width, height) = (COLUMNS as f64 * LETTER + 32.0, ROWS as f64 * LINE + 32.0);
    let length = shown.last().map_or(0.0, |line| line.second) + END;
    let percent = |second: f64| 100.0 * second / length;
    let (mut rules, mut moves, mut lines) = (String::new(), String::new(), String::new());
    for (row, line) in shown.iter().enumerate() {
        let at = percent(line.second);
        let class = if line.is_command { "c" } else { "o" };
        let y = 30.0 + row as f64 * LINE;
        let text = escaped(&line.text);
        let shown_from = format!("@keyframes l{row}{{0%{{opacity:0}}{at:.3}%,100%{{opacity:1}}}}");
        rules += &format!("{shown_from}.l{row}{{animation-name:l{row}}}\n");
        lines += &format!("<text class=\"{class} l{row}\" x=\"16\" y=\"{y}\">{text}</text>\n");
        let hidden = (row + 1).saturating_sub(ROWS) as f64 * LINE;
        // Of lines that appear together, the last one says how far all are moved.
        let is_last = shown
            .get(row + 1)
            .is_none_or(|next| next.second > line.second);
        if is_last {
            moves += &format!("{at:.3}%{{transform:translateY(-{hidden}px)}}");
        }
    }
    let end = shown.len().saturating_sub(ROWS) as f64 * LINE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>The commands of docs/ten-minutes.md, recorded by cargo xtask cast</title>\n<style>\n\
         .b{{fill:#fbfbf9;stroke:#c9c9c4}}\
         text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
         white-space:pre;fill:#24292f;\
         animation-duration:{length:.2}s;animation-iteration-count:infinite;\
         animation-timing-function:step-end}}.c{{fill:#0550ae;font-weight:600}}\n\
         .m{{animation:m {length:.2}s step-end infinite}}\n\
         @keyframes m{{0%{{transform:translateY(0)}}{moves}100%{{transform:translateY(-{end}px)}}}}\n{rules}\
         @media(prefers-color-scheme:dark){{.b{{fill:#0d1117;stroke:#30363d}}text{{fill:#d1d7de}}.c{{fill:#79c0ff}}}}\n\
         @media(prefers-reduced-motion:reduce){{\
         text{{animation:none}}.m{{animation:none;transform:translateY(-{end}px)}}}}\n</style>\n\
         <rect class=\"b\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <clipPath id=\"t\"><rect x=\"0\" y=\"12\" width=\"{width}\" height=\"{}\"/></clipPath>\n\
         <g clip-path=\"url(#t)\"><g class=\"m\">\n{lines}</g></g>\n</svg>\n",
        width - 1.0,
        height - 1.0,
        height - 24.0,
    )
}

/// Text of XML; what a terminal does not show is left out.
fn escaped(text: &str) -> String {
    let letters = text.chars().filter(|letter| !letter.is_control());
    let escape = |letter| match letter {
        '&' => "&amp;".to_string(),
        '<' => "&lt;".to_string(),
        '>' => "&gt;".to_string(),
        other => String::from(other),
    };
    letters.map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, ROWS, Shown, draw, escaped, wrapped};
    use crate::{command, files};

    #[test]
    fn lines_are_wrapped_and_escaped() {
        assert_eq!(wrapped(&"x".repeat(COLUMNS + 1)).len(), 2);
        assert_eq!(wrapped(""), [""]);
        assert_eq!(escaped("a<b> & \u{1b}c"), "a&lt;b&gt; &amp; c");
    }

    #[test]
    fn the_picture_shows_every_line_and_moves_up() {
        let line = |i: usize| Shown {
            second: i as f64,
            text: format!("line {i}"),
            is_command: i == 0,
        };
        let shown: Vec<_> = (0..ROWS + 2).map(line).collect();
        let picture = draw(&shown);
        assert!((0..ROWS + 2).all(|i| picture.contains(&format!(">line {i}</text>"))));
        assert_eq!(picture.matches("translateY(-34px)").count(), 3);
    }

    #[test]
    fn the_picture_is_of_the_page_of_today() {
        let root = command::root();
        let picture = files::text(&root.join(super::PICTURE)).expect("reads");
        let page = files::text(&root.join(super::PAGE)).expect("reads");
        for block in pages::blocks(&page).expect("reads") {
            for line in pages::commands(&block.code) {
                let is_shown = block.language != "sh" || pages::calls(&line, "hlx").is_empty();
                let first = escaped(&wrapped(&format!("$ {line}"))[0]);
                assert!(
                    is_shown || picture.contains(&first),
                    "{line}: run `cargo xtask cast`"
                );
            }
        }
    }
}
