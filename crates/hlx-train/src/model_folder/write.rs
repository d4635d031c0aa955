//! Model folders that the program writes: an imported model, an exported one, a merged one, an adapter. Each is
//! written to its own kind of folder alone, and never where it is read; its files become visible together.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::files::WrittenFile;
use hlx_core::{Device, files};
use hlx_gguf::Gguf;
use hlx_nn::{
    Architecture, CONFIG_FILE, CausalLm, GGUF_FILE, MODEL_FILE, Model, PEFT_CONFIG_FILE, PEFT_FILE,
    hugging_face_files, import_hugging_face, is_exported_config, is_hugging_face_folder,
    is_own_peft_config, model_files, read_language_model_config,
};
use hlx_text::{
    PREPARATION_FILE, Preparation, SPECIAL_TOKENS_MAP_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE,
    Tokenizer,
};

use super::open;
use super::stated::{
    state_generation, state_in_config, state_tokenizer, tokenizer_of, warn_of_qwen2,
};
use crate::companions::{Companions, NamedFile};
use crate::run::{CHAIN_FILE, DIGESTS_FILE, RunFolder, STATE_FILE};
use crate::special_tokens::{GENERATION_CONFIG_FILE, SpecialTokens};

/// The file of a chat template beside a tokenizer.
pub const CHAT_TEMPLATE_FILE: &str = "chat_template.jinja";
/// The file of a chat template that processors of transformers 4 have.
pub const PROCESSOR_TEMPLATE_FILE: &str = "chat_template.json";
/// The folder of chat templates beside the default one.
const MORE_TEMPLATES: &str = "additional_chat_templates";

/// What lies beside a model and goes with it. The tokenizer comes last: a run that has it has the others.
const COMPANIONS: [&str; 7] = [
    CHAT_TEMPLATE_FILE,
    PROCESSOR_TEMPLATE_FILE,
    GENERATION_CONFIG_FILE,
    PREPARATION_FILE,
    SPECIAL_TOKENS_MAP_FILE,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
];

/// What a verb makes of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// A model of HLX that `hlx import` has read from a Hugging Face folder.
    Imported,
    /// A Hugging Face folder.
    Exported,
    /// A model of HLX that adapters were merged into.
    Merged,
    /// An adapter as the library PEFT has it.
    Adapter,
}

impl FolderKind {
    /// The verb, as the folder's mark names it.
    fn verb(self) -> &'static str {
        match self {
            Self::Imported => "hlx import",
            Self::Exported => "hlx export",
            Self::Merged => "hlx lora --merge",
            Self::Adapter => "hlx lora",
        }
    }

    /// The files of the folder, without its mark.
    fn names(self) -> Vec<&'static str> {
        let own = match self {
            Self::Adapter => return vec![PEFT_FILE, PEFT_CONFIG_FILE],
            Self::Imported => &[GGUF_FILE, MODEL_FILE, CONFIG_FILE][..],
            Self::Exported | Self::Merged => &[MODEL_FILE, CONFIG_FILE],
        };
        [&COMPANIONS[..], own].concat()
    }

    /// Whether a folder without a mark is unmistakably one that the verb has written, an adapter or a model of a
    /// version without marks: it holds no other files, and its configuration is one that nothing but HLX writes.
    fn is_older(self, folder: &Path) -> bool {
        let names = self.names();
        let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let is_own = entries.all(|entry| {
            let (path, name) = (entry.path(), entry.file_name());
            let is_named = names.iter().any(|one| name == *one) || name == "pending";
            is_named || files::is_temporary(&path)
        });
        let has = |name: &str, test: fn(&[u8]) -> bool| {
            files::read_settings(&files::place(folder, name)).is_ok_and(|bytes| test(&bytes))
        };
        let is_of_kind = || match self {
            Self::Exported => has(CONFIG_FILE, is_exported_config),
            Self::Adapter => has(PEFT_CONFIG_FILE, is_own_peft_config),
            Self::Imported | Self::Merged => {
                is_hugging_face_folder(folder).is_ok_and(|is| !is)
                    && read_language_model_config(folder).is_ok()
            }
        };
        is_own && is_of_kind()
    }
}

/// A folder that a verb will write, checked before the work begins.
#[derive(Debug)]
pub struct NewFolder {
    path: PathBuf,
    kind: FolderKind,
}

impl NewFolder {
    /// Checks that a folder may be written: that it is none of those that are read, that it is new, empty or of
    /// the same kind, and that no file of it is one that is read. Nothing is touched.
    ///
    /// # Errors
    /// One line with the folder or the file.
    pub fn at(path: &Path, kind: FolderKind, read: &[PathBuf]) -> Result<Self> {
        let named = || path.display().to_string();
        ensure!(
            !files::is_one_of(path, read),
            "{}: is the folder that is read",
            named()
        );
        files::check_free(path, kind.verb(), |folder| kind.is_older(folder)).with_context(named)?;
        let inputs = read.iter().flat_map(|path| match path.is_file() {
            true => vec![path.clone()],
            false => files_in(path),
        });
        let inputs: Vec<PathBuf> = inputs.collect();
        for name in kind.names() {
            let file = path.join(name);
            ensure!(
                !files::is_one_of(&file, &inputs),
                "{}: is the file that is read",
                file.display()
            );
        }
        let path = path.to_owned();
        Ok(Self { path, kind })
    }

    /// Writes the folder's files together: the model's or the adapter's two, the last of which is its
    /// configuration, the companions, and the mark of a model.
    ///
    /// # Errors
    /// The system's message with the folder.
    pub fn write(&self, own: &[NamedFile; 2], companions: &[NamedFile]) -> Result<()> {
        self.write_all(&mut [], companions.iter().chain(own))
    }

    /// As [`NewFolder::write`], of a file with a model's tensors as they are, which `write` writes, and other files, the last of which
    /// is the model's configuration.
    ///
    /// # Errors
    /// The system's message with the folder, and what `write` answers.
    pub(super) fn write_stored(
        &self,
        name: &str,
        mut write: impl FnMut(&Path) -> Result<()>,
        others: &[NamedFile],
    ) -> Result<()> {
        let mut failed = None;
        let mut write = |path: &Path| {
            write(path).map_err(|error| {
                let line = std::io::Error::other("no file");
                failed = Some(error);
                line
            })
        };
        let written = self.write_all(&mut [(name, &mut write)], others.iter());
        failed.map_or(written, Err)
    }

    fn write_all<'a>(
        &self,
        written: &mut [WrittenFile<'_>],
        files: impl Iterator<Item = &'a NamedFile>,
    ) -> Result<()> {
        let cannot = || format!("{}: cannot be written", self.path.display());
        let mark = match self.kind {
            // The library PEFT has two files, and its configuration is HLX's own.
            FolderKind::Adapter => None,
            kind => Some((
                files::MARK_FILE,
                files::mark(kind.verb()).with_context(cannot)?,
            )),
        };
        let mut all: Vec<(&str, &[u8])> = Vec::new();
        all.extend(mark.iter().map(|(name, bytes)| (*name, &bytes[..])));
        all.extend(files.map(|(name, bytes)| (*name, &bytes[..])));
        let set = files::write_set_with(&self.path, written, &all, &self.kind.names());
        set.with_context(cannot)
    }
}

/// The files of a folder, those of its folders left out.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = entries_of(folder);
    files.retain(|path| path.is_file());
    files
}

/// The paths in a folder; none of what is not a folder.
fn entries_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The folders that a model is read from: its own, or those of a run and of its checkpoint. The first is the
/// one that its companions lie in.
///
/// # Errors
/// A run or a checkpoint that cannot be read.
pub fn folders_of(model: &Path) -> Result<Vec<PathBuf>> {
    match RunFolder::open_checkpoint(model) {
        Ok((run, checkpoint)) => Ok(vec![run.path().to_owned(), checkpoint.path().to_owned()]),
        Err(error) if model.join(DIGESTS_FILE).is_file() => Err(error),
        Err(_) => Ok(vec![model.to_owned()]),
    }
}

/// The files of folders of models and runs that are read, or that belong to them: what a verb writes must be
/// none of these.
pub fn files_of(folders: &[PathBuf]) -> Vec<PathBuf> {
    const OTHERS: [&str; 7] = [
        CHAIN_FILE,
        CONFIG_FILE,
        DIGESTS_FILE,
        PEFT_CONFIG_FILE,
        PEFT_FILE,
        "config.toml",
        "run.json",
    ];
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_part =
            name.starts_with("model") || name.starts_with("metrics") || name == STATE_FILE;
        is_part || COMPANIONS.contains(&&*name) || OTHERS.contains(&&*name)
    };
    let of_gguf = folders.iter().filter(|path| path.is_file());
    let of_gguf: Vec<PathBuf> = of_gguf.flat_map(|path| files_of_gguf(path)).collect();
    let checkpoints = folders.iter().map(|folder| folder.join("checkpoints"));
    let checkpoints = checkpoints.flat_map(|folder| entries_of(&folder));
    let folders = folders.iter().cloned().chain(checkpoints);
    let files = folders.flat_map(|folder| files_in(&folder));
    files.filter(is_own).chain(of_gguf).collect()
}

/// All files of a GGUF model.
fn files_of_gguf(path: &Path) -> Vec<PathBuf> {
    match Gguf::open(path) {
        Ok(file) => file.paths().map(Path::to_owned).collect(),
        Err(_) => vec![path.to_owned()],
    }
}

/// Reads a Hugging Face folder and writes it as a model folder of HLX, with the tokenizer and the
/// generation's settings that lie beside it. Returns the number of parameters.
///
/// # Errors
/// As [`NewFolder::at`] and [`import_hugging_face`], and the system's message.
pub fn import(from: &Path, to: &Path) -> Result<usize> {
    let new = NewFolder::at(to, FolderKind::Imported, &[from.to_owned()])?;
    let model = import_hugging_face(&Device::cpu()?, from)?;
    new.write(&model_files(&model)?, &stated_companions(from)?)?;
    Ok(model.weights().n_elements())
}

/// Writes a model as a Hugging Face folder.
///
/// # Errors
/// A model without a Hugging Face form, as [`NewFolder::at`] and [`open`], and the system's message.
pub fn export(from: &Path, to: &Path) -> Result<()> {
    let read = folders_of(from)?;
    let new = NewFolder::at(to, FolderKind::Exported, &read)?;
    let model = open(&Device::cpu()?, from, None)?;
    ensure!(
        !model.weights().has_lora(),
        "{}: has adapters; `hlx lora --merge` writes a model that can be exported",
        from.display()
    );
    write_exported(&new, &model, &Beside::Folder(&read[0]))?;
    match tokenizer_of(&read[0])?.0 {
        Some(tokenizer) => warn_of_prompts(&tokenizer, &read[0], to),
        None => Ok(()),
    }
}

/// What goes with a model into a folder.
#[derive(Clone, Copy, Debug)]
pub enum Beside<'a> {
    /// Nothing: it reads and writes ids alone.
    Nothing,
    /// A tokenizer.
    Tokenizer(&'a Tokenizer),
    /// What lies in the folder that the model was read from.
    Folder(&'a Path),
}

impl Beside<'_> {
    /// The files, the tokenizer, and the special tokens that they state.
    fn parts(&self) -> Result<(Vec<NamedFile>, Option<Tokenizer>, SpecialTokens)> {
        match *self {
            Self::Nothing => Ok((Vec::new(), None, SpecialTokens::default())),
            Self::Tokenizer(tokenizer) => {
                let specials = SpecialTokens::of_run(None, tokenizer)?;
                let files = tokenizer.files();
                let files = files.into_iter().flat_map(|files| files.files());
                let named = files.filter_map(|(name, bytes)| {
                    let name = COMPANIONS.into_iter().find(|one| *one == name)?;
                    Some((name, bytes.to_vec()))
                });
                Ok((named.collect(), Some(tokenizer.clone()), specials))
            }
            Self::Folder(folder) => {
                let (tokenizer, specials) = tokenizer_of(folder)?;
                Ok((companions(folder)?, tokenizer, specials))
            }
        }
    }
}

/// Writes a model in memory as a Hugging Face folder ([`FolderKind::Exported`]) or as one of HLX. `read` are the folders
/// that it was read from.
///
/// # Errors
/// A model with adapters, or without a Hugging Face form; as [`NewFolder::at`], and the system's message.
pub fn save(
    model: &Model<CausalLm>,
    kind: FolderKind,
    beside: &Beside<'_>,
    read: &[PathBuf],
    to: &Path,
) -> Result<()> {
    let new = NewFolder::at(to, kind, read)?;
    ensure!(
        !model.weights().has_lora(),
        "{}: the model has adapters; merge them, or write them alone",
        to.display()
    );
    if kind == FolderKind::Exported {
        return write_exported(&new, model, beside);
    }
    let (mut companions, tokenizer, specials) = beside.parts()?;
    if let (Beside::Tokenizer(_), Some(tokenizer)) = (beside, &tokenizer) {
        companions.push((TOKENIZER_FILE, tokenizer.to_json().as_bytes().to_vec()));
    }
    if !specials.is_empty() {
        state_generation(&mut companions, &specials)?;
    }
    new.write(&model_files(model)?, &companions)
}

/// Writes a model as a Hugging Face folder, with all that `transformers` wants to know.
fn write_exported(new: &NewFolder, model: &Model<CausalLm>, beside: &Beside<'_>) -> Result<()> {
    let config = model.config();
    let mut own = hugging_face_files(model.weights(), config)?;
    let (mut companions, tokenizer, specials) = beside.parts()?;
    if let Some(tokenizer) = &tokenizer {
        state_tokenizer(&mut companions, tokenizer, &specials)?;
        if config.architecture == Architecture::Qwen2 {
            warn_of_qwen2(tokenizer, &new.path);
        }
    }
    // Weights without a tokenizer and without a statement say nothing of texts.
    if tokenizer.is_some() || !specials.is_empty() {
        state_in_config(&mut own[1].1, &specials);
        state_generation(&mut companions, &specials)?;
    }
    new.write(&own, &companions)
}

/// As [`companions`], with the special tokens of the model, some of which its `config.json` may state alone.
///
/// # Errors
/// As [`companions`] and [`SpecialTokens::read`].
pub fn stated_companions(from: &Path) -> Result<Vec<NamedFile>> {
    let mut found = companions(from)?;
    let (_, specials) = tokenizer_of(from)?;
    if !specials.is_empty() {
        state_generation(&mut found, &specials)?;
    }
    Ok(found)
}

/// Says what other programs do not know of the prompts of an exported model: how the documents began that it was
/// trained on, where its tokenizer begins a text otherwise, and what stands between an input and its answer.
fn warn_of_prompts(tokenizer: &Tokenizer, from: &Path, to: &Path) -> Result<()> {
    let Some(preparation) = Preparation::read(from)? else {
        return Ok(());
    };
    let named = |ids: &[u32]| {
        let names = ids.iter().map(|&id| tokenizer.id_to_token(id));
        let names: Vec<String> = names.map(Option::unwrap_or_default).collect();
        match names.is_empty() {
            true => "no special token".to_owned(),
            false => format!("{names:?}"),
        }
    };
    let (trained, usual) = (&preparation.begin[..], tokenizer.text_begin());
    if preparation.documents.has_ends() && trained != usual {
        tracing::warn!(
            "{}: the model was trained on documents that begin with {}, and its tokenizer begins a text with {}; hlx does \
             as it was trained, and other programs as the tokenizer",
            to.display(),
            named(trained),
            named(usual)
        );
    }
    if preparation.answers_inputs() {
        let separator = tokenizer.decode_all(&preparation.pair_separator)?;
        tracing::warn!(
            "{}: the model answers inputs that end with {separator:?}: hlx puts it behind a prompt, and other programs \
             do not",
            to.display()
        );
    }
    Ok(())
}

/// Reads what lies beside a model, or in the metadata of a GGUF file: the tokenizer, its settings and chat template, and
/// the generation's settings.
///
/// # Errors
/// The system's message with the file.
pub fn companions(from: &Path) -> Result<Vec<NamedFile>> {
    if let Companions::Metadata { files, .. } = Companions::of(from)? {
        let of_text = files
            .into_iter()
            .filter(|(name, _)| COMPANIONS.contains(name));
        return Ok(of_text.collect());
    }
    let mut found = Vec::new();
    for name in COMPANIONS {
        let file = files::place(from, name);
        if file.is_file() {
            let bytes = match name.ends_with(".json") {
                true => files::read_json(&file),
                false => files::read_settings(&file),
            };
            let bytes = bytes.with_context(|| format!("{}: cannot be read", file.display()))?;
            found.push((name, bytes));
        }
    }
    warn_of_more_templates(from);
    Ok(found)
}

/// Says that the templates of a folder within a model's folder do not go with the model.
pub fn warn_of_more_templates(from: &Path) {
    let more = files::place(from, MORE_TEMPLATES);
    if more.is_dir() {
        tracing::warn!(
            "{}: is not copied; in the new folder chats with tools are laid out by {CHAT_TEMPLATE_FILE}",
            more.display()
        );
    }
}

/// Puts the companions of the data of a run, and of the model that it begins with, into the run's folder, the
/// tokenizer last; of those of one name the data's. `generation_config.json` states the special tokens of the run.
///
/// # Errors
/// The system's message with the file, and as [`SpecialTokens::of_run`].
pub fn bring_companions(data: &Path, begins_with: Option<&Path>, to: &Path) -> Result<()> {
    let mut found = companions(data)?;
    let has_tokenizer = found.iter().any(|(name, _)| *name == TOKENIZER_FILE);
    let more = begins_with.map(companions).transpose()?.unwrap_or_default();
    // How texts were encoded is known of the folder whose tokenizer it is, or of none.
    let belongs = |name: &str| name != PREPARATION_FILE || !has_tokenizer;
    found.extend(more.into_iter().filter(|(name, _)| belongs(name)));
    let mut found = first_of_each(found);
    if has_tokenizer {
        let specials = SpecialTokens::of_run(begins_with, &Tokenizer::open(data)?)?;
        state_generation(&mut found, &specials)?;
    }
    for name in COMPANIONS {
        if let Some((_, bytes)) = found.iter().find(|(one, _)| *one == name) {
            let path = to.join(name);
            let written = files::write_atomically(&path, bytes);
            written.with_context(|| format!("{}: cannot be written", path.display()))?;
        }
    }
    Ok(())
}

/// The first file of each name.
fn first_of_each(files: Vec<NamedFile>) -> Vec<NamedFile> {
    let mut found: Vec<NamedFile> = Vec::new();
    for file in files {
        if found.iter().all(|(name, _)| *name != file.0) {
            found.push(file);
        }
    }
    found
}
