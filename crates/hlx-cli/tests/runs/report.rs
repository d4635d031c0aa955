//! `hlx report`: a page that is whole by itself, whose numbers are the run's.

use std::fs;

use hlx_report::text::number;
use hlx_train::run::{Metric, read_metrics};
use serde_json::Value;

use super::{place, status, train};

/// Elements without an end.
const VOID: [&str; 1] = ["meta"];

/// Fails unless every element of a page is closed, in the order of their beginnings; returns their names.
fn elements(page: &str) -> Vec<String> {
    let (mut open, mut names, mut rest) = (Vec::<String>::new(), Vec::new(), page);
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if rest.starts_with("<!DOCTYPE") {
            rest = &rest[1..];
            continue;
        }
        let end = rest.find('>').expect("a tag has an end");
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(
                open.pop().as_deref(),
                Some(name),
                "near {}",
                &rest[..rest.len().min(80)]
            );
            continue;
        }
        let name: String = tag
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        assert!(!name.is_empty(), "`<{tag}>` is no tag");
        names.push(name.clone());
        if tag.ends_with('/') || VOID.contains(&name.as_str()) {
            continue;
        }
        // What is in them is no markup.
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}>")).expect("its end")..];
        }
        open.push(name);
    }
    assert_eq!(open, Vec::<String>::new());
    names
}

/// Fails for anything that a browser would load.
fn loads_nothing(page: &str) {
    for word in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<link", "<img", "style=\"",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(
        page.contains("default-src 'none'; style-src 'sha256-"),
        "no policy"
    );
}

#[test]
fn a_page_is_well_formed_loads_nothing_and_has_the_logs_numbers() {
    let place = place("report");
    train(&place, "run", &[]);
    place.succeeds(&["verify", "run"]);
    let line = place.succeeds(&["report", "run", "--out", "a.html", "--json"]);
    let page = fs::read_to_string(place.join("a.html")).expect("a page");
    let markdown = fs::read_to_string(place.join("a.md")).expect("Markdown");
    let names = elements(&page);
    loads_nothing(&page);
    assert!(
        names.iter().filter(|name| *name == "svg").count() >= 4,
        "{names:?}"
    );
    let digests = place.digests("run");
    let facts: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&facts["kind"], &facts["version"]),
        (&"report".into(), &1.into())
    );
    let run = &facts["runs"][0];
    assert_eq!(run["checkpoint"]["parameters"], digests.parameters.as_str());
    assert_eq!(run["verdicts"][0]["equal"], true);
    assert_eq!(
        (&run["step"], &run["planned_steps"]),
        (&6.into(), &6.into())
    );
    let head = run["chain"]["head"].as_str().expect("a digest");
    for of in [&page, &markdown] {
        for digest in [&digests.parameters, &digests.optimizer, &head.to_owned()] {
            assert!(of.contains(digest.as_str()), "{digest}");
        }
        assert!(of.contains("equal up to record") && of.contains("hlx train run/config.toml"));
    }
    let metrics = read_metrics(&place.join("run/metrics.jsonl")).expect("reads");
    let (mut drawn, mut n_evaluations) = (Vec::new(), 0);
    for metric in &metrics {
        match metric {
            Metric::Train { step, loss, .. } => {
                drawn.extend([step.to_string(), format!("{loss:.6e}")])
            }
            Metric::Eval { loss, .. } => {
                n_evaluations += 1;
                assert!(page.contains(&format!("<td class=\"number\">{}</td>", number(*loss))));
                assert!(markdown.contains(&number(*loss)));
            }
            Metric::Sample { text, .. } => {
                let first = hlx_report::chart::escape(text.lines().next().unwrap_or_default());
                assert!(page.contains(&first), "{first}");
            }
        }
    }
    assert_eq!(
        n_evaluations,
        run["evaluations"].as_array().expect("a list").len()
    );
    let curve = page
        .split("data-name=\"training loss\" data-points=\"[")
        .nth(1)
        .expect("a curve");
    let points = curve.split(']').next().expect("points").split(',');
    let points: Vec<f64> = points
        .map(|value| value.parse().expect("a number"))
        .collect();
    let expected: Vec<f64> = drawn
        .iter()
        .map(|value| value.parse().expect("a number"))
        .collect();
    assert_eq!(points, expected);
}

#[test]
fn what_a_model_writes_stays_text() {
    let place = place("report-text");
    train(&place, "run", &[]);
    let path = place.join("run/metrics.jsonl");
    let log = fs::read_to_string(&path).expect("reads");
    let sample = Metric::Sample {
        step: 6,
        prompt: "<i>\"|`".to_owned(),
        text: "</script><script>alert(1)</script> ```\n| a |\u{1b}[2J https://example.org"
            .to_owned(),
    };
    let nan = log
        .lines()
        .next()
        .expect("a line")
        .replace("\"loss\":", "\"loss\":null,\"was\":");
    let line = serde_json::to_string(&sample).expect("JSON");
    fs::write(&path, format!("{log}{nan}\n{line}\n")).expect("writes");
    place.succeeds(&[
        "report",
        "run",
        "--title",
        "a < b & \"c\"",
        "--out",
        "a.html",
    ]);
    let page = fs::read_to_string(place.join("a.html")).expect("a page");
    assert_eq!(
        elements(&page)
            .iter()
            .filter(|name| *name == "script")
            .count(),
        1
    );
    assert!(page.contains("<title>a &lt; b &amp; &quot;c&quot;</title>"));
    assert!(!page.contains('\u{1b}') && page.contains("Left out as gaps: 1 points"));
    let markdown = fs::read_to_string(place.join("a.md")).expect("Markdown");
    assert!(markdown.contains("````text\n</script>") && !markdown.contains('\u{1b}'));
}

#[test]
fn runs_beside_each_other_show_what_differs() {
    let place = place("report-two");
    train(&place, "a", &[]);
    train(&place, "b", &["train.learning_rate=0.02", "train.keep=1"]);
    let printed = place.succeeds(&["report", "a", "b", "--out", "two.html"]);
    assert_eq!(printed, "two.html\ntwo.md\n");
    let page = fs::read_to_string(place.join("two.html")).expect("a page");
    elements(&page);
    loads_nothing(&page);
    let markdown = fs::read_to_string(place.join("two.md")).expect("Markdown");
    assert!(
        markdown.contains("| `train.learning_rate` | `0.01` | `0.02` | yes |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| `train.keep` | `3` | `1` | no |"),
        "{markdown}"
    );
    for name in ["a, training", "b, training", "a, held-out loss"] {
        assert!(page.contains(&format!("data-name=\"{name}\"")), "{name}");
    }
    let (code, _, stderr) = status(&place, &["report", "a", "./a"]);
    assert_eq!((code, stderr.as_str()), (1, "error: ./a: is given twice\n"));
}
