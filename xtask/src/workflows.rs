//! Checks the workflows of the repository's host: what their steps call exists, their shell is sound, and what they
//! may do is written down.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{HELP, command, files};

/// Every fault of the workflows and of action.yml, one line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    // A folder whose name begins with a dot is walked when it is named.
    let mut sources = files::under(&root.join(".github/workflows"), &["yml"])?;
    let n_workflows = sources.len();
    sources.push(root.join("action.yml"));
    for (place, source) in sources.iter().enumerate() {
        let name = files::relative(root, source);
        let text = files::text(source)?;
        wrong.extend(faults(&name, &text, place < n_workflows));
        for script in scripts(&text) {
            wrong.extend(shell_faults(&name, &script)?);
        }
    }
    for script in files::under(&root.join("docker"), &["sh"])? {
        wrong.extend(shell_faults(
            &files::relative(root, &script),
            &files::text(&script)?,
        )?);
    }
    Ok(wrong)
}

/// What reading alone finds.
fn faults(name: &str, text: &str, is_workflow: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (row, line) in text.lines().enumerate() {
        let mut fault = |what: String| wrong.push(format!("{name}:{}: {what}", row + 1));
        for call in line.split("cargo xtask ").skip(1) {
            let verb = call
                .split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
                .next()
                .unwrap_or_default();
            if !line.trim_start().starts_with('#') && !is_verb(verb) {
                fault(format!("cargo xtask has no verb `{verb}`"));
            }
        }
        if let Some(action) = line
            .trim_start()
            .trim_start_matches("- ")
            .strip_prefix("uses: ")
        {
            let version = action
                .split('@')
                .nth(1)
                .and_then(|rest| rest.split(' ').next())
                .unwrap_or_default();
            if !is_pinned(version) {
                fault(format!(
                    "{action}: pin it to a commit or to a major version"
                ));
            }
        }
        if line.contains("secrets.") {
            fault("takes a secret; the job's own token is enough".to_owned());
        }
    }
    if is_workflow && !text.lines().any(|line| line == "permissions:") {
        wrong.push(format!(
            "{name}: does not say which permissions its token has"
        ));
    }
    // What an expression gives is text of others: as a variable it is data, in a script it is code.
    let is_injected = |script: &String| script.contains("${{");
    if scripts(text).iter().any(is_injected) {
        wrong.push(format!(
            "{name}: a script has an expression; pass it by `env`"
        ));
    }
    wrong
}

/// Whether the help of `cargo xtask` lists a verb.
fn is_verb(verb: &str) -> bool {
    let listed = HELP
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    !verb.is_empty() && listed.into_iter().any(|name| name == verb)
}

/// A commit, or a major version such as v4.
fn is_pinned(version: &str) -> bool {
    let is_commit = version.len() == 40 && version.bytes().all(|c| c.is_ascii_hexdigit());
    let major = version.strip_prefix('v').unwrap_or_default();
    is_commit || (!major.is_empty() && major.bytes().all(|c| c.is_ascii_digit()))
}

/// The scripts of steps: `run:` of one line, of lines behind `|`, and of folded lines behind `>-`.
fn scripts(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut scripts = Vec::new();
    for (row, line) in lines.iter().enumerate() {
        let Some((before, script)) = line.split_once("run: ") else {
            continue;
        };
        if !before.chars().all(|c| c == ' ' || c == '-') {
            continue;
        }
        let depth = before.len();
        let below = lines[row + 1..]
            .iter()
            .take_while(|line| line.trim().is_empty() || indent(line) > depth);
        let below: Vec<&str> = below.map(|line| line.trim_end()).collect();
        let inner = below
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| indent(line))
            .min()
            .unwrap_or(0);
        let below: Vec<&str> = below
            .iter()
            .map(|line| line.get(inner..).unwrap_or_default())
            .collect();
        scripts.push(match script.trim() {
            "|" => below.join("\n"),
            ">-" => below.join(" "),
            script => script.to_owned(),
        });
    }
    scripts
}

/// What shellcheck finds in a script; nothing where it is not installed.
fn shell_faults(name: &str, script: &str) -> Result<Vec<String>, String> {
    if !command::on_path("shellcheck") {
        return Ok(Vec::new());
    }
    let cannot = |error: std::io::Error| format!("cannot run shellcheck: {error}");
    let mut shellcheck = Command::new("shellcheck");
    let shell = if script.starts_with("#!/bin/sh") {
        "sh"
    } else {
        "bash"
    };
    shellcheck.args(["--shell", shell, "--format", "gcc", "-"]);
    let mut child = shellcheck
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes()).map_err(cannot)?;
    }
    let output = child.wait_with_output().map_err(cannot)?;
    let found = String::from_utf8_lossy(&output.stdout);
    Ok(found
        .lines()
        .map(|line| format!("{name}: script {}", line.trim_start_matches('-')))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{check, faults, is_pinned, scripts, shell_faults};
    use crate::command;

    const STEPS: &str = "permissions:
jobs:
  a:
    steps:
      - run: cargo xtask lint
      - name: b
        run: |
          if true; then
            echo x
          fi
      - run: >-
          cargo xtask
          bench
      - uses: a/b@v4
";

    #[test]
    fn the_scripts_are_those_of_the_steps() {
        let found = scripts(STEPS);
        assert_eq!(
            found,
            [
                "cargo xtask lint",
                "if true; then\n  echo x\nfi",
                "cargo xtask bench"
            ]
        );
        assert!(faults("a.yml", STEPS, true).is_empty());
    }

    #[test]
    fn verbs_that_are_not_there_and_loose_versions_are_named() {
        let found = |text: &str| faults("a.yml", text, false).join("\n");
        assert!(found("- run: cargo xtask tset --all").contains("no verb `tset`"));
        assert!(found("- uses: a/b@main").contains("pin it"));
        assert!(found("- run: echo ${{ github.head_ref }}").contains("expression"));
        assert!(found("  env: ${{ secrets.KEY }}").contains("secret"));
        assert!(faults("a.yml", "jobs:\n", true)[0].contains("permissions"));
        assert!(
            is_pinned("11bd71901bbe5b1630ceea73d27597364c9af683")
                && !is_pinned("v4.2")
                && !is_pinned("")
        );
    }

    #[test]
    fn the_repositorys_workflows_are_sound() {
        assert_eq!(check(&command::root()), Ok(Vec::new()));
        if command::on_path("shellcheck") {
            assert!(
                shell_faults("a", "for f in $(ls); do echo $f; done")
                    .is_ok_and(|found| !found.is_empty())
            );
        }
    }
}
