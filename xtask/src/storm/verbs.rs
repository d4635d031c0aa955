//! A storm over the verbs that write folders: each is killed while it replaces a good folder, or while it
//! prepares a corpus. At any moment the folder is the old one or the new one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::place::{names, wait};
use super::random::Random;
use super::{Count, remove, report};
use crate::command::capture;

/// The verbs, as `--verb` names them.
pub const VERBS: [&str; 4] = ["import", "export", "lora", "prepare"];

/// A model small enough that a kill falls into the writing as often as into the rest.
const CONFIG: &str = r#"[model]
architecture = "qwen3"
width = 16
n_layers = 1
n_heads = 4
n_kv_heads = 2
feed_forward_width = 24
positions = 64

[data]
path = "tokens"
format = "shards"
length = 16

[train]
max_steps = 1
batch_size = 4
learning_rate = 0.01
checkpoint_every = 0
"#;

/// A chat template that only one of the two models has.
const TEMPLATE: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

/// Every file of a folder by name.
type Files = BTreeMap<String, Vec<u8>>;

/// A folder with two models, and what a verb makes of each of them.
pub struct Verbs<'a> {
    path: PathBuf,
    program: &'a Path,
}

/// A verb, the two folders that it makes, and what a reader finds in each.
struct Storm {
    verb: &'static str,
    whole: [Files; 2],
    said: [String; 2],
    duration: Duration,
}

impl<'a> Verbs<'a> {
    /// Trains the two models, and gives each what the verbs read.
    pub fn new(path: &Path, program: &'a Path) -> Result<Self, String> {
        let place = Self {
            path: path.to_owned(),
            program,
        };
        fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
        place.write("config.toml", CONFIG)?;
        place.write("sample.txt", "the river of light")?;
        for number in 0..6 {
            let line = format!("the river of light, {number} of them\n");
            place.write(&format!("in-{number}.txt"), &line.repeat(4000))?;
        }
        place.run("tokenizer train --vocab 280 in-0.txt")?;
        place.run("data prepare --tokenizer tokenizer.json -o tokens in-0.txt")?;
        for (model, seed) in [("a", 1), ("b", 2)] {
            let train = format!("train config.toml --set seed={seed}");
            place.run(&format!("{train} --out run-{model}"))?;
            if model == "b" {
                place.write("run-b/chat_template.jinja", TEMPLATE)?;
            }
            place.run(&format!("export run-{model} hub-{model}"))?;
            let lora = format!("--set train.init_from=hub-{model} --set lora={{rank=2}}");
            place.run(&format!("{train} {lora} --out tuned-{model}"))?;
        }
        Ok(place)
    }

    /// Kills a verb until enough kills are done.
    pub fn storm(
        &self,
        verb: &'static str,
        kills: u64,
        random: &mut Random,
        total: &mut Count,
    ) -> Result<(), String> {
        let begun = Instant::now();
        let mut done = 0;
        let storm = self.reference(verb)?;
        println!(
            "{verb}: left alone it takes {:.2} s",
            storm.duration.as_secs_f64()
        );
        while done < kills {
            let phase = match verb {
                "prepare" => self.kill_preparation(&storm, random)?,
                _ => self.kill_replacement(&storm, random)?,
            };
            if let Some(phase) = phase {
                done += 1;
                total.kills += 1;
                *total.phases.entry(phase).or_default() += 1;
                if done % (kills / 10).max(1) == 0 {
                    report(verb, done, kills, begun);
                }
            } else {
                total.ended += 1;
            }
        }
        self.forget("out")
    }

    /// Makes both folders of a verb, left alone, and reads them; the first one is there as `out`.
    fn reference(&self, verb: &'static str) -> Result<Storm, String> {
        let mut storm = Storm {
            verb,
            whole: Default::default(),
            said: Default::default(),
            duration: Duration::ZERO,
        };
        for (number, model) in ["b", "a"].into_iter().enumerate() {
            let begun = Instant::now();
            self.run(&arguments(verb, model))?;
            storm.duration = begun.elapsed();
            storm.whole[1 - number] = self.files()?;
            storm.said[1 - number] = self.read(verb)?;
            if verb == "prepare" {
                self.forget("out")?;
            }
        }
        Ok(storm)
    }

    /// Kills a verb that replaces one model's folder by the other's, checks the folder, and mends it half of
    /// the time. `None` if the verb ended before.
    fn kill_replacement(
        &self,
        storm: &Storm,
        random: &mut Random,
    ) -> Result<Option<&'static str>, String> {
        let new = random.number(2);
        let model = ["a", "b"][new];
        let before = self.files()?;
        let has_ended = self.kill(&arguments(storm.verb, model), storm, random)?;
        let phase = match self.names() {
            names if names.iter().any(|name| name.ends_with(".tmp")) => "while files were staged",
            names if names.iter().any(|name| name == "pending") => "while files were moved",
            _ if self.files()? == before => "before anything was changed",
            _ => "behind the last change",
        };
        let said = self.read(storm.verb)?;
        let found = storm.said.iter().position(|one| *one == said);
        let found = found.ok_or_else(|| self.wrong(storm, &format!("reads as neither: {said}")))?;
        // Without config.json other programs read nothing; with it all files are of one model.
        let files = self.files()?;
        if files.contains_key("config.json") && files != storm.whole[0] && files != storm.whole[1] {
            let names: Vec<_> = files.keys().collect();
            return Err(self.wrong(storm, &format!("files of two models: {names:?}")));
        }
        if has_ended && (found != new || files != storm.whole[new]) {
            return Err(self.wrong(storm, "has ended, and is not the new one"));
        }
        if random.number(2) == 0 {
            self.run(&arguments(storm.verb, model))?;
            let is_whole = self.files()? == storm.whole[new];
            let is_left = |name: &String| !storm.whole[new].contains_key(name);
            if !is_whole || self.names().iter().any(is_left) {
                return Err(self.wrong(storm, "is not the new one after the next call"));
            }
        }
        Ok((!has_ended).then_some(phase))
    }

    /// Kills a preparation, checks the folder, and begins anew once all is whole. `None` if it ended before.
    fn kill_preparation(
        &self,
        storm: &Storm,
        random: &mut Random,
    ) -> Result<Option<&'static str>, String> {
        let has_ended = self.kill(&arguments(storm.verb, "a"), storm, random)?;
        let names = self.names();
        let has = |name: &str| names.iter().any(|one| one == name);
        let phase = match () {
            () if !has("progress.json") && !has("index.json") => "before the first file",
            () if has("progress.json") && has("index.json") => "between the index and the end",
            () if has("index.json") => "behind the last change",
            () if has("shard-00000.bin") => "behind a shard",
            () => "before the first shard",
        };
        let verified = self.command("data verify out").output();
        let verified = verified.map_err(|error| format!("hlx data verify: {error}"))?;
        if verified.status.success() != has("index.json") {
            return Err(self.wrong(storm, "does not verify as its index says"));
        }
        let ignored = ["progress.json", "lock"];
        let mut files = self.files()?;
        files.retain(|name, _| !ignored.contains(&name.as_str()) && !name.ends_with(".tmp"));
        if has("index.json") {
            if files != storm.whole[0] {
                return Err(self.wrong(storm, "has an index, and other files than it should"));
            }
            if !has("lock") {
                self.forget("out")?;
            }
        }
        Ok((!has_ended).then_some(phase))
    }

    /// Starts a verb and kills it: at a random moment, or soon after it has begun to write. `true` if it ended
    /// before.
    fn kill(&self, arguments: &str, storm: &Storm, random: &mut Random) -> Result<bool, String> {
        let moment = random.below(storm.duration);
        let mut command = self.command(arguments);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", self.program.display()))?;
        if random.number(2) == 0 {
            let begun = Instant::now();
            let is_writing = || {
                let names = self.names();
                names
                    .iter()
                    .any(|name| name.ends_with(".tmp") || name == "pending")
            };
            while !is_writing() && begun.elapsed() < storm.duration {
                std::thread::sleep(Duration::from_micros(100));
            }
            std::thread::sleep(moment / 8);
        } else if wait(&mut child, Some(moment))? {
            return ended(child.wait().map_err(|error| error.to_string())?, arguments);
        }
        child.kill().map_err(|error| error.to_string())?;
        let status = child.wait().map_err(|error| error.to_string())?;
        match status.code() {
            Some(_) => ended(status, arguments),
            None => Ok(false),
        }
    }

    /// What a reader finds: the perplexity of a text, by the model and its tokenizer; of tokens their files.
    fn read(&self, verb: &str) -> Result<String, String> {
        if verb == "prepare" {
            return Ok(String::new());
        }
        let read = "perplexity out --text sample.txt --length 8 --json";
        capture("hlx perplexity", &mut self.command(read))
    }

    fn wrong(&self, storm: &Storm, reason: &str) -> String {
        format!(
            "{}: `hlx {}`: {reason}",
            self.path.join("out").display(),
            storm.verb
        )
    }

    fn names(&self) -> Vec<String> {
        names(&self.path.join("out"))
    }

    /// The files of the folder; those in `pending` and in temporary folders are left out.
    fn files(&self) -> Result<Files, String> {
        let folder = self.path.join("out");
        let mut files = Files::new();
        for name in self.names() {
            let path = folder.join(&name);
            if path.is_file() {
                let bytes = fs::read(&path);
                let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
                files.insert(name, bytes);
            }
        }
        Ok(files)
    }

    fn forget(&self, name: &str) -> Result<(), String> {
        remove(&self.path.join(name))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn run(&self, arguments: &str) -> Result<(), String> {
        capture(&format!("hlx {arguments}"), &mut self.command(arguments)).map(drop)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(self.program);
        command.current_dir(&self.path);
        command.args(arguments.split(' ')).env("HLX_DEVICE", "cpu");
        command.env("HLX_CACHE_DIR", self.path.join("cache"));
        command
    }
}

/// The command that makes the folder `out` of a model.
fn arguments(verb: &str, model: &str) -> String {
    match verb {
        "import" => format!("import hub-{model} --out out"),
        "export" => format!("export run-{model} out"),
        "lora" => format!("lora tuned-{model} --merge --out out"),
        _ => "data prepare --tokenizer hub-b --shard-tokens 30000 -o out in-*.txt".to_owned(),
    }
}

/// A verb that ends by itself must succeed; of a preparation that is whole the next call says so.
fn ended(status: std::process::ExitStatus, arguments: &str) -> Result<bool, String> {
    match status.success() || arguments.starts_with("data prepare") {
        true => Ok(true),
        false => Err(format!("hlx {arguments}: {status}")),
    }
}
