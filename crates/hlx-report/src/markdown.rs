//! A document as Markdown.

use hlx_core::printable;

use crate::chart::Chart;
use crate::document::{Block, Cell, Document, Samples, Table};
use crate::text::{number, with_commas};

/// Writes the document.
pub(crate) fn markdown(document: &Document) -> String {
    let mut text = format!(
        "# {}\n\n{}\n\n",
        plain(&document.title),
        plain(&document.subtitle)
    );
    for fault in &document.faults {
        text += &format!("> **Not read:** {}\n\n", plain(fault));
    }
    if !document.key_figures.is_empty() {
        let mut figures = Table::new(["what", "value"]);
        let rows = document.key_figures.iter();
        figures.rows = rows
            .map(|(name, value)| vec![Cell::text(name), Cell::text(value)])
            .collect();
        text += &table(&figures);
    }
    for section in &document.sections {
        text += &format!("## {}\n\n", plain(&section.title));
        for one in &section.blocks {
            text += &block(one);
        }
    }
    text + &format!("{}\n", plain(&document.footer))
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(words) => format!("{}\n\n", plain(words)),
        Block::Charts(charts) => table(&of_charts(charts)),
        Block::Table(of) => table(of),
        Block::Pairs(pairs) => {
            let mut of = Table::new(["key", "value"]);
            of.rows = pairs
                .iter()
                .map(|(key, value)| vec![Cell::code(key), Cell::code(value)])
                .collect();
            table(&of)
        }
        Block::Samples(samples) => of_samples(samples),
        Block::Code(lines) => fenced(&lines.join("\n")),
    }
}

/// What a picture shows: the ends and the extremes of each curve.
fn of_charts(charts: &[Chart]) -> Table {
    let mut table = Table::new([
        "what", "curve", "points", "first", "last", "least", "greatest",
    ]);
    for chart in charts {
        for curve in &chart.curves {
            let values = curve.points.iter().map(|point| point.1);
            let finite = values.filter(|value| value.is_finite());
            let finite: Vec<f64> = finite.collect();
            let (Some(first), Some(last)) = (finite.first(), finite.last()) else {
                continue;
            };
            let least = finite.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut row = vec![
                Cell::text(&chart.title),
                Cell::text(&curve.name),
                Cell::number(with_commas(curve.points.len() as u64)),
            ];
            let values = [*first, *last, least, greatest];
            row.extend(values.map(|value| Cell::number(number(value))));
            table.rows.push(row);
        }
    }
    table
}

fn of_samples(samples: &Samples) -> String {
    let mut text = format!("Prompt `{}`\n\n", code(&samples.prompt));
    for (heading, words) in samples.rows.iter().flatten() {
        text += &format!("**{}**\n\n{}", plain(heading), fenced(words));
    }
    text
}

/// A block of lines as they are, with a fence that is longer than any in them.
fn fenced(words: &str) -> String {
    let words = hlx_core::printable_lines(words);
    let longest = words.split(|letter| letter != '`').map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n\n", words.trim_end_matches('\n'))
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = line(table.head.iter().map(|name| plain(name)).collect());
    let is_number = |column: usize| {
        let of = |row: &Vec<Cell>| matches!(row.get(column), Some(Cell::Number(_)));
        table.rows.first().is_some_and(of)
    };
    let rule = (0..table.head.len()).map(|column| match is_number(column) {
        true => "---:".to_owned(),
        false => "---".to_owned(),
    });
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().map(|cell| match cell {
            Cell::Code(words) if !words.is_empty() => format!("`{}`", code(words)),
            other => plain(other.words()),
        });
        line(cells.collect())
    });
    head + &line(rule.collect()) + &rows.collect::<String>() + "\n"
}

/// Words whose marks mean themselves.
fn plain(words: &str) -> String {
    let mut text = String::new();
    for letter in printable(words).chars() {
        if "\\`*_[]<>|#".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Words between back quotes, in a table too.
fn code(words: &str) -> String {
    printable(words).replace('`', "'").replace('|', "\\|")
}
