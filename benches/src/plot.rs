//! Bar charts of a run as SVG.

use std::fmt::Write;

use crate::peer_table::{PeerRow, times};
use crate::step_table::{ARITHMETICS, MODES, StepRow};
use crate::table::{Row, digits};

const WIDTH: f64 = 760.0;
/// Where the bars begin, right of the names.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 62.0;
const BAR: f64 = 15.0;
const GAP: f64 = 6.0;
const OURS: &str = "#2563eb";
const SLOWER: &str = "#93b4f4";
const THEIRS: &str = "#ea580c";
const THEIRS_PREPARED: &str = "#fdba74";
const LINE: &str = "#0f172a";

/// A bar: where it ends as a share of the chart's width, its colour, and its number.
struct Bar {
    share: f64,
    colour: &'static str,
    text: String,
}

/// Bars under one name.
struct Group {
    name: String,
    bars: Vec<Bar>,
}

/// How many times as fast as PyTorch each operation is, with a line at equal speed. Beside the
/// bar of an operation launched from Python, a second one for those in a CUDA graph.
pub fn ratios(rows: &[PeerRow], title: &str) -> String {
    let compared = |row: &&PeerRow| row.ratio().is_some();
    let rows: Vec<&PeerRow> = rows.iter().filter(compared).collect();
    let all = rows
        .iter()
        .flat_map(|row| [row.ratio(), row.prepared_ratio()]);
    // One very fast operation must not flatten all others.
    let largest = all.flatten().fold(1.5_f64, f64::max).min(4.0);
    let bar = |ratio: f64, colours: [&'static str; 2]| Bar {
        share: (ratio / largest).min(1.0),
        colour: colours[usize::from(ratio < 1.0)],
        text: times(Some(ratio)),
    };
    let groups: Vec<Group> = rows
        .iter()
        .map(|row| Group {
            name: row.case.clone(),
            bars: [
                row.ratio().map(|ratio| bar(ratio, [OURS, SLOWER])),
                row.prepared_ratio()
                    .map(|ratio| bar(ratio, [THEIRS, THEIRS_PREPARED])),
            ]
            .into_iter()
            .flatten()
            .collect(),
        })
        .collect();
    let legend = [
        ("times as fast as PyTorch from Python (paler: slower)", OURS),
        ("as PyTorch in a CUDA graph", THEIRS),
    ];
    let has_graphs = rows.iter().any(|row| row.prepared_ratio().is_some());
    let legend = &legend[..if has_graphs { 2 } else { 1 }];
    chart(title, &groups, legend, Some(1.0 / largest))
}

/// The colours of HLX's other arithmetics, in the order of [`ARITHMETICS`].
const ARITHMETIC_COLOURS: [&str; ARITHMETICS.len()] = ["#60a5fa", "#bfdbfe"];
/// The colours of PyTorch's modes, in the order of [`MODES`].
const MODE_COLOURS: [&str; MODES.len()] =
    [THEIRS, THEIRS_PREPARED, "#0f766e", "#5eead4", "#a855f7"];

/// The time of each training step, HLX's and PyTorch's in each measured mode; each step has a
/// scale of its own.
pub fn steps(rows: &[StepRow], title: &str) -> String {
    let group = |row: &StepRow| {
        let others = row.arithmetic_ms.into_iter().zip(ARITHMETIC_COLOURS);
        let peers = row.peer_ms.into_iter().zip(MODE_COLOURS);
        let sides: Vec<(f64, &'static str)> = std::iter::once((row.hlx_ms, OURS))
            .chain(others)
            .chain(peers)
            .filter_map(|(ms, colour)| Some((ms?, colour)))
            .collect();
        let longest = sides
            .iter()
            .fold(f64::MIN_POSITIVE, |longest, side| longest.max(side.0));
        let bar = |&(ms, colour): &(f64, &'static str)| Bar {
            share: ms / longest,
            colour,
            text: format!("{} ms", digits(ms)),
        };
        Group {
            name: row.name.clone(),
            bars: sides.iter().map(bar).collect(),
        }
    };
    let groups: Vec<Group> = rows.iter().map(group).collect();
    let measured = |mode: usize| rows.iter().any(|row| row.peer_ms[mode].is_some());
    let has = |other: usize| rows.iter().any(|row| row.arithmetic_ms[other].is_some());
    let mut legend = vec![("HLX", OURS)];
    legend.extend(
        (0..ARITHMETICS.len())
            .filter(|&other| has(other))
            .map(|other| (ARITHMETICS[other], ARITHMETIC_COLOURS[other])),
    );
    legend.extend(
        (0..MODES.len())
            .filter(|&mode| measured(mode))
            .map(|mode| (MODES[mode].heading, MODE_COLOURS[mode])),
    );
    chart(title, &groups, &legend, None)
}

/// The share of the device's peak that each kernel reaches.
pub fn rates(rows: &[Row], title: &str) -> String {
    let largest = rows.iter().map(Row::share).fold(1.0, f64::max);
    let groups: Vec<Group> = rows
        .iter()
        .map(|row| Group {
            name: row.case.clone(),
            bars: vec![Bar {
                share: row.share() / largest,
                colour: if row.unit == "GB/s" { THEIRS } else { OURS },
                text: format!("{:.0}%", row.share() * 100.0),
            }],
        })
        .collect();
    let legend = [("of multiply-adds", OURS), ("of copies", THEIRS)];
    chart(title, &groups, &legend, Some(1.0 / largest))
}

/// Draws groups of bars below each other, with a line at `mark` of the width.
fn chart(title: &str, groups: &[Group], legend: &[(&str, &str)], mark: Option<f64>) -> String {
    let rows: f64 = groups.iter().map(|group| height(group) + GAP).sum();
    let bottom = TOP + rows;
    let whole = bottom + 14.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {whole:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"#475569\">\n\
         <rect width=\"{WIDTH}\" height=\"{whole:.0}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\" fill=\"{LINE}\">{}</text>\n",
        escape(title)
    );
    let mut x = 16.0;
    for (text, colour) in legend {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"46\">{}</text>",
            x + 17.0,
            escape(text)
        );
        x += 40.0 + 6.0 * text.len() as f64;
    }
    if let Some(mark) = mark {
        let x = LEFT + mark * (WIDTH - LEFT - RIGHT);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{LINE}\" \
             stroke-dasharray=\"4 3\"/>",
            TOP - 6.0
        );
    }
    let mut y = TOP;
    for group in groups {
        draw(&mut svg, group, y);
        y += height(group) + GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

/// A group without bars has the height of one.
fn height(group: &Group) -> f64 {
    BAR * group.bars.len().max(1) as f64
}

fn draw(svg: &mut String, group: &Group, top: f64) {
    let middle = top + height(group) / 2.0 + 4.0;
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        escape(&group.name)
    );
    for (row, bar) in group.bars.iter().enumerate() {
        let y = top + BAR * row as f64;
        let width = bar.share * (WIDTH - LEFT - RIGHT);
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" stroke=\"#ffffff\" stroke-width=\"3\" \
             paint-order=\"stroke\">{}</text>",
            BAR - 2.0,
            bar.colour,
            LEFT + width + 5.0,
            y + BAR - 4.0,
            escape(&bar.text)
        );
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
