//! The verb `table`: what pipelines take of several chips, as a table of Markdown.

use std::collections::BTreeMap;

/// One chip's output of `check`: its name, and the numbers of each pipeline.
struct Chip {
    name: String,
    pipelines: BTreeMap<String, Vec<u64>>,
}

impl Chip {
    fn read(text: &str) -> Option<Self> {
        let (header, lines) = text.split_once('\n')?;
        let pipeline = |line: &str| {
            let (name, numbers) = line.split_once('\t')?;
            let numbers: Result<Vec<u64>, _> = numbers.split('\t').map(str::parse).collect();
            Some((name.to_owned(), numbers.ok()?))
        };
        Some(Self {
            name: header.replace('\t', ", "),
            pipelines: lines.lines().map(pipeline).collect::<Option<_>>()?,
        })
    }

    /// Vector registers, spilled registers and waves of a pipeline.
    fn cell(&self, pipeline: &str) -> String {
        match self.pipelines.get(pipeline).map(Vec::as_slice) {
            Some([vector, _, 0, _, _, waves, ..]) => format!("{vector}, {waves}"),
            Some([vector, _, spilled, _, _, waves, ..]) => {
                format!("{vector}, {waves}, **{spilled}**")
            }
            _ => "-".to_owned(),
        }
    }
}

/// Prints the table of the pipelines that any of the outputs has; returns no breaches.
pub fn print(outputs: &[String]) -> Result<usize, String> {
    let read = |file: &String| {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        Chip::read(&text).ok_or_else(|| format!("{file}: not what `radv check` writes"))
    };
    let chips = outputs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    print!("{}", table(&chips));
    Ok(0)
}

fn table(chips: &[Chip]) -> String {
    let mut names: Vec<&String> = chips
        .iter()
        .flat_map(|chip| chip.pipelines.keys())
        .collect();
    names.sort();
    names.dedup();
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = chips.iter().map(|chip| chip.name.clone()).collect();
    let mut text = row(&[vec!["pipeline".to_owned(), "divisions".to_owned()], head].concat());
    text += &format!("|---|---|{}\n", "---|".repeat(chips.len()));
    for name in names {
        let divisions = chips
            .iter()
            .filter_map(|chip| chip.pipelines.get(name)?.get(7));
        let divisions = divisions.max().map_or(String::new(), u64::to_string);
        let cells = chips.iter().map(|chip| chip.cell(name)).collect();
        text += &row(&[vec![format!("`{name}`"), divisions], cells].concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_has_a_row_and_a_chip_a_column() {
        let read = |text: &str| Chip::read(text).expect("an output");
        let chips = [
            read("A, Mesa 1\tfuses\na 0=1\t24\t128\t0\t0\t0\t16\t700\t2\n"),
            read(
                "B, Mesa 1\tdoes not fuse\na 0=1\t30\t32\t5\t64\t0\t8\t900\t3\nb\t9\t8\t0\t0\t0\t10\t64\t0\n",
            ),
        ];
        assert_eq!(
            table(&chips),
            "| pipeline | divisions | A, Mesa 1, fuses | B, Mesa 1, does not fuse |\n\
             |---|---|---|---|\n\
             | `a 0=1` | 3 | 24, 16 | 30, 8, **5** |\n\
             | `b` | 0 | - | 9, 10 |\n"
        );
        assert!(Chip::read("A\na\tx\n").is_none());
    }
}
