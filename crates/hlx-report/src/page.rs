//! A document as one HTML page: its style, its pictures and a little script are in it, and nothing else is loaded.

use std::fmt::Write;

use hlx_core::printable_lines;
use sha2::{Digest, Sha256};

use crate::chart::{Chart, Size, escape};
use crate::document::{Block, Cell, Document, Samples, Table};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Digits from which a word is set as a digest.
const DIGEST_DIGITS: usize = 40;
/// Letters up to which words of a cell stay in one line, and code.
const SHORT_WORDS: usize = 14;
const SHORT_CODE: usize = 16;
/// Letters from which a column's name may be broken.
const LONG_NAME: usize = 20;

/// Writes the page.
pub(crate) fn html(document: &Document) -> String {
    let title = escape(&document.title);
    let (style, script) = (source_of(STYLE), source_of(SCRIPT));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {style}; \
         script-src {script}; base-uri 'none'; form-action 'none'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"subtitle\">{}</p>\n",
        escape(&document.subtitle)
    );
    for fault in &document.faults {
        let _ = writeln!(
            page,
            "<p class=\"fault\"><b>Not read:</b> {}</p>",
            escape(fault)
        );
    }
    if !document.key_figures.is_empty() {
        page.push_str("<dl class=\"figures\">\n");
        for (name, value) in &document.key_figures {
            let (name, value) = (escape(name), escape(value));
            let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
        page.push_str("</dl>\n");
    }
    page.push_str("</header>\n<main>\n");
    for section in &document.sections {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", escape(&section.title));
        for one in &section.blocks {
            block(&mut page, one);
        }
        page.push_str("</section>\n");
    }
    let footer = escape(&document.footer);
    let _ = write!(
        page,
        "</main>\n<footer>{footer}</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

/// A text as the policy of a page names it: nothing else is carried out, whatever a sample may hold.
fn source_of(text: &str) -> String {
    format!(
        "'sha256-{}'",
        base64::encode(Sha256::digest(text.as_bytes()))
    )
}

fn block(page: &mut String, block: &Block) {
    match block {
        Block::Text(words) => _ = writeln!(page, "<p>{}</p>", escape(words)),
        Block::Charts(charts) => {
            page.push_str("<div class=\"charts\">\n");
            charts.iter().for_each(|one| chart(page, one));
            page.push_str("</div>\n");
        }
        Block::Table(of) => table(page, of),
        Block::Pairs(pairs) => {
            page.push_str("<dl class=\"pairs\">\n");
            for (key, value) in pairs {
                let (key, value) = (escape(key), escape(value));
                let _ = writeln!(
                    page,
                    "<div><dt><code>{key}</code></dt><dd><code>{value}</code></dd></div>"
                );
            }
            page.push_str("</dl>\n");
        }
        Block::Samples(of) => samples(page, of),
        Block::Code(lines) => {
            for line in lines {
                let _ = writeln!(page, "<pre class=\"command\">{}</pre>", escape(line));
            }
        }
    }
}

fn chart(page: &mut String, chart: &Chart) {
    let class = match chart.size {
        Size::Whole => "chart full",
        Size::Half => "chart half",
        Size::Third => "chart",
    };
    let unit = match chart.unit.is_empty() || chart.title.contains("per second") {
        true => String::new(),
        false => format!(" <span>{}</span>", escape(&chart.unit)),
    };
    let _ = writeln!(
        page,
        "<figure class=\"{class}\">\n<h3>{}{unit}</h3>",
        escape(&chart.title)
    );
    // One curve is named by the title.
    if chart.curves.len() > 1 || chart.target.is_some() {
        page.push_str("<ul class=\"legend\">\n");
        for curve in &chart.curves {
            let marked = match (curve.is_marked, curve.has_dashes()) {
                (_, true) => " dashes",
                (true, false) => " marked",
                (false, false) => "",
            };
            let (colour, name) = (curve.colour % crate::chart::N_COLOURS, escape(&curve.name));
            let _ = writeln!(page, "<li><i class=\"c{colour}{marked}\"></i>{name}</li>");
        }
        if let Some(target) = chart.target {
            let _ = writeln!(page, "<li><i class=\"dashed\"></i>target {target}</li>");
        }
        page.push_str("</ul>\n");
    }
    page.push_str(&chart.svg());
    let caption = chart.caption();
    if !caption.is_empty() {
        let _ = writeln!(page, "<figcaption>{}</figcaption>", escape(&caption));
    }
    page.push_str("</figure>\n");
}

fn table(page: &mut String, table: &Table) {
    let is_number = |column: usize| {
        let of = |row: &Vec<Cell>| matches!(row.get(column), Some(Cell::Number(_)));
        table.rows.first().is_some_and(of)
    };
    let is_cards = is_cards(table);
    let class = if is_cards { " cards" } else { "" };
    let _ = write!(page, "<div class=\"table{class}\"><table>\n<thead><tr>");
    for (column, name) in table.head.iter().enumerate() {
        let class = if is_number(column) {
            " class=\"number\""
        } else {
            ""
        };
        let words = escape(name);
        let _ = match name.chars().count() >= LONG_NAME {
            true => write!(page, "<th{class}><span class=\"long\">{words}</span></th>"),
            false => write!(page, "<th{class}>{words}</th>"),
        };
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (cell, column) in row.iter().zip(&table.head) {
            let words = escape(cell.words());
            let mut attributes = String::new();
            if is_cards && !words.is_empty() {
                attributes = format!(" data-name=\"{}\"", escape(column));
            }
            let class = match class_of(cell) {
                "" => String::new(),
                class => format!(" class=\"{class}\""),
            };
            let _ = match cell {
                Cell::Code(_) if !words.is_empty() => {
                    write!(page, "<td{attributes}><code{class}>{words}</code></td>")
                }
                _ => write!(page, "<td{class}{attributes}>{words}</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// Whether a narrow screen shows each row as a card: of tables of many words, which would be columns of one word each.
fn is_cards(table: &Table) -> bool {
    let is_number = |cell: &&Cell| matches!(cell, Cell::Number(_));
    let is_verdict = |cell: &Cell| matches!(cell, Cell::Verdict(..));
    table.rows.first().is_some_and(|row| {
        let n_words = row.len() - row.iter().filter(is_number).count();
        row.iter().any(is_verdict) || (row.len() > 4 && n_words > 2)
    })
}

/// How a cell, or the code in it, is set.
fn class_of(cell: &Cell) -> &'static str {
    let n = cell.words().chars().count();
    match cell {
        Cell::Number(_) => "number",
        Cell::Verdict(_, true) => "good",
        Cell::Verdict(_, false) => "bad",
        Cell::Code(_) if n == 0 => "",
        Cell::Code(code)
            if n >= DIGEST_DIGITS && code.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            "digest"
        }
        Cell::Code(_) if n <= SHORT_CODE => "short",
        Cell::Text(words) if (1..=SHORT_WORDS).contains(&n) || words.ends_with(" UTC") => "short",
        Cell::Text(_) | Cell::Code(_) => "",
    }
}

fn samples(page: &mut String, samples: &Samples) {
    let prompt = escape(&samples.prompt);
    let _ = writeln!(page, "<p class=\"prompt\">Prompt <code>{prompt}</code></p>");
    for texts in &samples.rows {
        page.push_str("<div class=\"samples\">\n");
        for (heading, words) in texts {
            let (heading, words) = (escape(heading), lines(words));
            let _ = writeln!(
                page,
                "<figure><figcaption>{heading}</figcaption><pre>{words}</pre></figure>"
            );
        }
        page.push_str("</div>\n");
    }
}

/// Text whose newlines are meant.
fn lines(words: &str) -> String {
    let lines = printable_lines(words);
    let lines = lines.split('\n').map(escape);
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(head: [&str; 5], row: [Cell; 5]) -> String {
        let mut of = Table::new(head);
        of.rows.push(row.into());
        let mut page = String::new();
        table(&mut page, &of);
        page
    }

    #[test]
    fn a_row_of_words_becomes_a_card_and_numbers_stay_in_columns() {
        let head = ["key", "a", "b", "c \"x\"", "bits"];
        let words = written(
            head,
            ["train.learning_rate", "0.01", "0.003", "0.01", "yes"].map(Cell::code),
        );
        assert!(words.starts_with("<div class=\"table cards\">"), "{words}");
        assert!(
            words.contains(
                "<td data-name=\"c &quot;x&quot;\"><code class=\"short\">0.01</code></td>"
            ),
            "{words}"
        );
        // A long key may be broken.
        assert!(
            words.contains("<td data-name=\"key\"><code>train.learning_rate</code></td>"),
            "{words}"
        );
        let numbers = written(head, ["1", "2", "3", "4", "5"].map(Cell::number));
        assert!(numbers.starts_with("<div class=\"table\">"), "{numbers}");
        assert!(!numbers.contains("data-name"), "{numbers}");
    }

    #[test]
    fn short_words_and_times_stay_in_a_line_and_long_names_of_columns_are_broken() {
        let cells = [
            "held out",
            "2026-11-27 22:26:29 UTC",
            "",
            "whole: every digest and link",
            "x",
        ];
        let page = written(
            ["a", "b", "c", "d", "a run of a very long name"],
            cells.map(Cell::text),
        );
        for part in [
            "<td class=\"short\" data-name=\"a\">held out</td>",
            "<td class=\"short\" data-name=\"b\">2026-11-27 22:26:29 UTC</td>",
            "<td></td>",
            "<td data-name=\"d\">whole: every digest and link</td>",
            "<th><span class=\"long\">a run of a very long name</span></th>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
