//! `hlx zoo`: recipes whose results are published by digest, and their cards.

mod card;
mod found;
mod index;
mod weights;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::DeviceArgument;
use crate::golden::Verdict;
use crate::print::{self, say};
use crate::verify::end;
use found::{Found, compare};
use index::{Kind, Recipe, Trained, Zoo};

/// Exit status: 0 done, or equal; 1 differs; 2 cannot be done.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of the recipes.
    #[arg(long, value_name = "DIR", default_value = "zoo", global = true)]
    zoo: PathBuf,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List the recipes with their published results.
    List {
        /// Print one line of JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Train a recipe, and compare its digest with the published one.
    Train(Train),
    /// Compare a trained recipe's digest with the published one, and compute its steps again.
    Verify(Verify),
    /// Talk to a trained recipe of pairs, or let one of a text go on from a beginning.
    Chat(Chat),
    /// Print a recipe's card, or write all cards.
    Card {
        /// The recipe; all with --write.
        #[arg(value_name = "NAME", required_unless_present = "write")]
        name: Option<String>,
        /// Write the cards of all recipes to ZOO/cards.
        #[arg(long, conflicts_with = "name")]
        write: bool,
    },
}

#[derive(clap::Args)]
struct OfRun {
    /// The recipe.
    #[arg(value_name = "NAME")]
    name: String,
    /// The run folder; runs/zoo/NAME if left out.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
}

/// The data of a run and where it is computed.
#[derive(clap::Args)]
struct Computed {
    /// The data: to train, where the recipe has none of its own; to verify, where they are no longer where the run read
    /// them.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
}

impl Computed {
    /// The end of a line for another verb, with data in the place of [`Computed::data`].
    fn arguments(&self, data: Option<&Path>) -> Vec<String> {
        let mut line = vec!["--device".to_owned(), self.device.device.clone()];
        if let Some(data) = data {
            line.extend(["--data".to_owned(), shown(data)]);
        }
        line
    }
}

#[derive(clap::Args)]
struct Chat {
    #[command(flatten)]
    of: OfRun,
    /// For recipes of a text: what it goes on from.
    #[arg(long, value_name = "TEXT", default_value = "ROMEO:\n")]
    prompt: String,
    #[command(flatten)]
    device: DeviceArgument,
}

#[derive(clap::Args)]
struct Train {
    #[command(flatten)]
    of: OfRun,
    #[command(flatten)]
    computed: Computed,
    /// Go on with a run that was interrupted.
    #[arg(long)]
    resume: bool,
    /// Add what was found to ZOO/results.json, and write the weights of recipes that have a file of them: for those who
    /// publish recipes.
    #[arg(long, conflicts_with = "resume")]
    publish: bool,
    /// Print JSON, a line for each object, instead of text.
    #[arg(long, conflicts_with = "publish")]
    json: bool,
}

#[derive(clap::Args)]
struct Verify {
    #[command(flatten)]
    of: OfRun,
    #[command(flatten)]
    computed: Computed,
    /// Compare the digests alone, and compute nothing; without a run, that of the published weights.
    #[arg(long)]
    quick: bool,
    /// Print JSON, a line for each object, instead of text.
    #[arg(long)]
    json: bool,
}

/// What another verb of the program does.
pub type Dispatch = fn(&[String]) -> ExitCode;

/// Does what was asked; `dispatch` runs the program's other verbs.
pub fn run(arguments: &Arguments, dispatch: Dispatch) -> ExitCode {
    let zoo = match Zoo::open(&arguments.zoo) {
        Ok(zoo) => zoo,
        Err(error) => return end(Err(error)),
    };
    match &arguments.verb {
        Verb::List { json } => end(print::or_closed(list(&zoo, *json)).map(|()| Verdict::Equal)),
        Verb::Train(wanted) => wanted.run(&zoo, dispatch),
        Verb::Verify(wanted) => wanted.run(&zoo, dispatch),
        Verb::Chat(wanted) => match wanted.line(&zoo) {
            Ok(line) => dispatch(&line),
            Err(error) => end(Err(error)),
        },
        Verb::Card { name, .. } => {
            end(print::or_closed(cards(&zoo, name.as_deref())).map(|()| Verdict::Equal))
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl OfRun {
    fn path(&self) -> PathBuf {
        let usual = || Path::new("runs/zoo").join(&self.name);
        self.run.clone().unwrap_or_else(usual)
    }

    fn holds_run(&self) -> bool {
        self.path().join("config.toml").exists()
    }

    /// The run's folder, which must be there.
    fn trained(&self, recipe: &Recipe) -> Result<PathBuf> {
        let path = self.path();
        ensure!(
            self.holds_run(),
            "{}: {}: `hlx zoo train {}` trains one",
            path.display(),
            match path.exists() {
                true => "holds no run",
                false => "is not there",
            },
            recipe.name
        );
        Ok(path)
    }
}

impl Chat {
    /// The verb that talks to the run, or to the published weights where there is no run.
    fn line(&self, zoo: &Zoo) -> Result<Vec<String>> {
        let recipe = zoo.recipe(&self.of.name)?;
        let weights = zoo.weights_path(&recipe.name);
        let is_here = self.of.run.is_some() || self.of.path().exists() || !weights.exists();
        let model = match is_here {
            true => self.of.trained(recipe)?,
            false => weights,
        };
        let mut line = match recipe.kind {
            Kind::Images => bail!("{}: reads images and does not talk", recipe.name),
            Kind::Pairs => vec!["chat".to_owned(), shown(&model)],
            Kind::Text => vec![
                "generate".to_owned(),
                shown(&model),
                format!("--prompt={}", self.prompt),
            ],
        };
        line.extend(["--device".to_owned(), self.device.device.clone()]);
        Ok(line)
    }
}

fn list(zoo: &Zoo, as_json: bool) -> Result<()> {
    if as_json {
        let recipes = zoo.recipes.iter().map(|recipe| {
            json!({
                "name": recipe.name, "title": recipe.title, "kind": recipe.kind,
                "licence": recipe.licence, "published": zoo.results_of(&recipe.name),
            })
        });
        return say!(
            "{}",
            json!({"kind": "zoo", "recipes": recipes.collect::<Vec<_>>()})
        );
    }
    say!(
        "{:<19}{:>11}{:>10}  {:<18}what it is",
        "name",
        "parameters",
        "loss",
        "digest"
    )?;
    for recipe in &zoo.recipes {
        let results = zoo.results_of(&recipe.name);
        let Some(first) = results.first() else {
            say!(
                "{:<19}{:>11}{:>10}  {:<18}{}",
                recipe.name,
                "",
                "",
                "none yet",
                recipe.title
            )?;
            continue;
        };
        let loss = first
            .loss
            .map_or_else(String::new, |loss| format!("{loss:.4}"));
        say!(
            "{:<19}{:>11}{loss:>10}  {:<18}{}",
            recipe.name,
            first.n_parameters,
            first.parameters.get(..16).unwrap_or_default(),
            recipe.title
        )?;
    }
    Ok(())
}

fn cards(zoo: &Zoo, name: Option<&str>) -> Result<()> {
    if let Some(name) = name {
        return say!("{}", card::card(zoo, zoo.recipe(name)?).trim_end());
    }
    for recipe in &zoo.recipes {
        let path = zoo.card_path(&recipe.name);
        hlx_core::files::write_atomically(&path, card::card(zoo, recipe).as_bytes())
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        say!("written    {}", path.display())?;
    }
    Ok(())
}

impl Train {
    fn run(&self, zoo: &Zoo, dispatch: Dispatch) -> ExitCode {
        let prepared = zoo.recipe(&self.of.name).and_then(|recipe| {
            ensure!(
                self.resume || !self.of.holds_run(),
                "{}: holds a run already: `hlx zoo verify {}` checks it, --resume goes on with it, another --run keeps it",
                self.of.path().display(),
                recipe.name
            );
            let data = self.prepared_data(recipe, dispatch)?;
            Ok((recipe, data))
        });
        let (recipe, data) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return end(Err(error)),
        };
        let run = self.of.path();
        let mut line: Vec<String> = ["train", &shown(&zoo.recipe_path(&recipe.name))]
            .map(str::to_owned)
            .to_vec();
        line.extend(["--out".to_owned(), shown(&run)]);
        line.extend(self.computed.arguments(data.as_deref()));
        line.extend(self.resume.then(|| "--resume".to_owned()));
        line.extend(self.json.then(|| "--json".to_owned()));
        let began = Instant::now();
        let status = dispatch(&line);
        if status != ExitCode::SUCCESS {
            return status;
        }
        let seconds = began.elapsed().as_secs_f64();
        let compared = || {
            let trained = Trained::read(&run)?;
            if self.publish {
                let file = zoo.weights_path(&recipe.name);
                let weights = match file.exists() {
                    true => {
                        weights::write(&run, &file)?;
                        Some(weights::digest(&file)?)
                    }
                    false => None,
                };
                zoo.publish(&recipe.name, &trained, weights, seconds)?;
                say!("published  {}", shown(&zoo.results_path()))?;
                return Ok(Verdict::Equal);
            }
            let found = compare(zoo, recipe, &run, &trained)?;
            found.print(recipe, &run, self.json)?;
            Ok(found.verdict())
        };
        end(compared())
    }

    /// Where the data lie; texts of recipes of tokens are prepared beside the run.
    fn prepared_data(&self, recipe: &Recipe, dispatch: Dispatch) -> Result<Option<PathBuf>> {
        if let Some(name) = &recipe.after {
            let before = Path::new("runs/zoo").join(name);
            ensure!(
                before.join("config.toml").exists(),
                "{}: is not there: `hlx zoo train {name}` comes first",
                before.display()
            );
        }
        let Some(needs) = &recipe.needs else {
            ensure!(
                self.computed.data.is_none(),
                "--data: {} has its own data",
                recipe.name
            );
            return Ok(None);
        };
        let Some(data) = &self.computed.data else {
            ensure!(
                recipe.without.is_some(),
                "{} needs its data: --data names {needs}",
                recipe.name
            );
            return Ok(None);
        };
        let Some(vocabulary) = recipe.vocabulary else {
            return Ok(Some(data.clone()));
        };
        prepared_tokens(data, vocabulary, dispatch).map(Some)
    }
}

/// The folder of a text's tokens: by the text's digest, so that another text has tokens of its own.
fn prepared_tokens(data: &Path, vocabulary: usize, dispatch: Dispatch) -> Result<PathBuf> {
    let digest = weights::digest(data)?;
    let name = format!("{vocabulary}-{}", &digest[..16]);
    let folder = Path::new("runs/zoo/tokens").join(name);
    if folder.join("index.json").exists() {
        return Ok(folder);
    }
    std::fs::create_dir_all("runs/zoo/tokens").context("runs/zoo/tokens")?;
    let (vocabulary, out, data) = (vocabulary.to_string(), shown(&folder), shown(data));
    let tokenizer = format!("{out}.json");
    for line in [
        [
            "tokenizer",
            "train",
            "--vocab",
            &vocabulary,
            "-o",
            &tokenizer,
            &data,
        ],
        [
            "data",
            "prepare",
            "--tokenizer",
            &tokenizer,
            "-o",
            &out,
            &data,
        ],
    ] {
        ensure!(
            dispatch(&line.map(str::to_owned)) == ExitCode::SUCCESS,
            "{data}: cannot be prepared (the line above says why)"
        );
    }
    Ok(folder)
}

impl Verify {
    fn run(&self, zoo: &Zoo, dispatch: Dispatch) -> ExitCode {
        let compared = || {
            let recipe = zoo.recipe(&self.of.name)?;
            let path = self.of.path();
            let of_file = weights::check_file(zoo, recipe)?;
            let differs = of_file.as_ref().is_some_and(|found| !found.is_equal());
            if differs || (self.quick && !path.exists()) {
                let of_file = of_file.with_context(|| {
                    format!(
                        "{0}: has no published weights, and {1} is not there: `hlx zoo train {0}` trains it",
                        recipe.name,
                        shown(&path)
                    )
                })?;
                let found = Found::of_weights(of_file);
                found.print(recipe, &path, self.json)?;
                return Ok((path, found.verdict()));
            }
            let run = self.of.trained(recipe)?;
            let mut found = compare(zoo, recipe, &run, &Trained::read(&run)?)?;
            found.weights.splice(..0, of_file);
            found.print(recipe, &run, self.json)?;
            Ok((run, found.verdict()))
        };
        let run = match compared() {
            Ok((run, Verdict::Equal)) if !self.quick => run,
            Ok((_, verdict)) => return end(Ok(verdict)),
            Err(error) => return end(Err(error)),
        };
        let mut line = vec!["verify".to_owned(), shown(&run)];
        line.extend(self.computed.arguments(self.computed.data.as_deref()));
        line.extend(self.json.then(|| "--json".to_owned()));
        dispatch(&line)
    }
}
