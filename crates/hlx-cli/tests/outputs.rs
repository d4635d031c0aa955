//! What the program writes: never where it reads, never into a folder of others, and all or nothing.

mod common;

use std::fs;
use std::path::Path;

use common::{SMALL_MODEL, Scratch, contents};
use hlx_autograd::Tensor;
use hlx_io::save_npy;
use hlx_nn::{CausalLm, Model, export_hugging_face};

/// A small GPT-2 as a Hugging Face folder, with ids to read.
fn exported(place: &Scratch, folder: &str, seed: u64) {
    let config = common::small_gpt2();
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let model = Model::new(&device, seed, |b| CausalLm::new(b, &config)).expect("makes");
    export_hugging_face(model.weights(), &config, &place.join(folder)).expect("written");
    let settings = format!("{{\"seed\": {seed}}}");
    place.write(&format!("{folder}/generation_config.json"), &settings);
    let ids = Tensor::from_slice::<u32>(&device, &[1, 2, 3], &[1, 3]).expect("ids");
    save_npy(&place.join("ids.npy"), &ids).expect("written");
}

/// The logits of a model's folder, as bytes of a file.
fn logits(place: &Scratch, folder: &str) -> Vec<u8> {
    place.succeeds(&["logits", folder, "--ids", "ids.npy", "--out", "l.npy"]);
    fs::read(place.join("l.npy")).expect("written")
}

/// Runs the program, which must refuse and change nothing in the folder of the test.
fn refuses(place: &Scratch, arguments: &[&str]) -> String {
    let before = contents(&place.path);
    let line = place.fails(arguments);
    assert!(contents(&place.path) == before, "{arguments:?}: {line}");
    line
}

/// A tokenizer with its settings and chat template, and a text.
fn tokenizer(place: &Scratch) {
    place.write("a.txt", "the river\n");
    fs::create_dir(place.join("tok")).expect("made");
    place.write("tok/tokenizer.json", "{\"hlx_tokenizer\":\"bytes\"}");
    place.write("tok/chat_template.jinja", "{{ messages }}");
    place.write("tok/tokenizer_config.json", "{}");
}

const FOREIGN: &str = "has not made; name an empty or a new folder";

#[test]
fn a_preparation_does_not_empty_the_files_beside_its_tokenizer() {
    let place = Scratch::new("outputs-prepare");
    tokenizer(&place);
    let tokenizers = ["tok", "tok/tokenizer.json"];
    for tokenizer in tokenizers {
        let prepare = ["data", "prepare", "--tokenizer", tokenizer, "-o", "tok"];
        let line = refuses(&place, &[&prepare[..], &["a.txt"]].concat());
        assert!(
            line.starts_with("error: tok: ") && line.ends_with(FOREIGN),
            "{line}"
        );
    }
    let prepare = ["data", "prepare", "--tokenizer", "tok/tokenizer.json", "-o"];
    place.succeeds(&[&prepare[..], &["whole", "a.txt"]].concat());
    for name in ["chat_template.jinja", "tokenizer_config.json"] {
        let read = |folder: &str| fs::read(place.join(folder).join(name)).expect("there");
        assert_eq!(read("whole"), read("tok"), "{name}");
    }
    assert_eq!(contents(&place.join("whole")).len(), 7);
}

#[test]
fn a_checkpoint_is_not_exported_over_its_run() {
    let config = SMALL_MODEL.to_owned() + "log_every = 1\n";
    let place = Scratch::exported("outputs-run", &config);
    for (from, to) in [
        ("run", "run"),
        ("run/checkpoints/step-000003", "run"),
        ("run/checkpoints/step-000003", "run/checkpoints/step-000003"),
        ("run/best", "run/checkpoints/../../run"),
    ] {
        let line = refuses(&place, &["export", from, to]);
        assert_eq!(line, format!("error: {to}: is the folder that is read"));
    }
    let line = refuses(&place, &["export", "run", "run/checkpoints"]);
    assert!(line.ends_with(FOREIGN), "{line}");
    // The run itself belongs to `hlx train`, and its files to nobody else.
    for out in [
        "run/config.toml",
        "run/metrics.jsonl",
        "run/run.json",
        "run/chain.jsonl",
    ] {
        let line = refuses(&place, &["plot", "run", "--out", out]);
        assert_eq!(line, format!("error: {out}: is the file that is read"));
    }
    place.succeeds(&["plot", "run", "--out", "run/curve.svg"]);
    place.succeeds(&["plot", "run", "--out", "run/curve.svg"]);
}

/// A folder of each kind, which no verb but its own writes to.
#[test]
fn a_folder_of_others_is_refused_before_anything_is_touched() {
    let place = Scratch::new("outputs-foreign");
    exported(&place, "hub", 5);
    tokenizer(&place);
    place.succeeds(&["import", "hub", "--out", "imported"]);
    place.succeeds(&["export", "imported", "exported"]);
    place.succeeds(&["data", "prepare", "-o", "prepared", "a.txt"]);
    fs::create_dir_all(place.join("user/.cache.tmp")).expect("made");
    for name in [
        "lock",
        "progress.json",
        ".notes.tmp",
        "tokenizer.json",
        ".cache.tmp/a",
    ] {
        place.write(&format!("user/{name}"), "{}");
    }
    fs::create_dir(place.join("downloaded")).expect("made");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(
            place.join("hub").join(name),
            place.join("downloaded").join(name),
        )
        .expect("copied");
    }
    place.write("downloaded/README.md", "a model");
    let verbs: [(&[&str], &str); 3] = [
        (&["import", "hub", "--out"], "imported"),
        (&["export", "imported"], "exported"),
        (&["data", "prepare", "a.txt", "-o"], "prepared"),
    ];
    for (verb, own) in verbs {
        for folder in [
            "imported",
            "exported",
            "prepared",
            "user",
            "downloaded",
            "tok",
        ] {
            let arguments = [verb, &[folder]].concat();
            if folder != own && !(verb[0] == "export" && folder == "imported") {
                let line = refuses(&place, &arguments);
                assert!(line.ends_with("; name an empty or a new folder"), "{line}");
            }
        }
        let line = refuses(&place, &[verb, &["a.txt"]].concat());
        assert!(line.contains("a.txt: is no folder"), "{line}");
    }
    // Its own folder is written again, and so is one of a version that made no marks.
    place.write("imported/notes.txt", "a user's");
    for folder in ["imported", "exported"] {
        let verb = verbs
            .iter()
            .find(|(_, own)| *own == folder)
            .expect("there")
            .0;
        place.succeeds(&[verb, &[folder]].concat());
    }
    fs::remove_file(place.join("imported/notes.txt")).expect("kept");
    for folder in ["imported", "exported"] {
        fs::remove_file(place.join(folder).join("hlx.json")).expect("a mark");
        let verb = verbs
            .iter()
            .find(|(_, own)| *own == folder)
            .expect("there")
            .0;
        place.succeeds(&[verb, &[folder]].concat());
        assert!(place.join(folder).join("hlx.json").is_file(), "{folder}");
    }
}

#[cfg(unix)]
#[test]
fn files_that_are_links_to_the_input_are_not_emptied() {
    use std::os::unix::fs::symlink;
    let place = Scratch::new("outputs-links");
    exported(&place, "hub", 5);
    exported(&place, "other", 6);
    fs::create_dir(place.join("snapshot")).expect("made");
    for name in ["config.json", "model.safetensors", "generation_config.json"] {
        symlink(
            place.join("hub").join(name),
            place.join("snapshot").join(name),
        )
        .expect("linked");
    }
    place.succeeds(&["import", "snapshot", "--out", "mine"]);
    let line = refuses(&place, &["import", "hub", "--out", "snapshot"]);
    assert!(line.ends_with(FOREIGN), "{line}");
    // A folder that is its own, with a file that is now one of the input's.
    let settings = place.join("mine/generation_config.json");
    fs::remove_file(&settings).expect("removed");
    symlink(place.join("hub/generation_config.json"), &settings).expect("linked");
    for input in ["hub", "snapshot"] {
        let line = refuses(&place, &["import", input, "--out", "mine"]);
        let expected = "error: mine/generation_config.json: is the file that is read";
        assert_eq!(line, expected);
    }
    // Behind a link to another file lies what is written.
    place.write("settings.json", "{}");
    fs::remove_file(&settings).expect("removed");
    symlink(place.join("settings.json"), &settings).expect("linked");
    symlink("mine", place.join("alias")).expect("linked");
    place.succeeds(&["import", "other", "--out", "alias"]);
    assert!(settings.is_symlink() && place.join("alias").is_symlink());
    let read = |name: &str| fs::read(place.join(name)).expect("there");
    assert_eq!(read("settings.json"), read("other/generation_config.json"));
    assert_eq!(logits(&place, "mine"), logits(&place, "other"));
}

/// A verb that writes one file.
struct Writer {
    /// The verb and its option, as in [`OPTIONS`].
    option: &'static str,
    /// Its arguments without the option.
    arguments: Vec<String>,
    /// The files that it reads, and may not write.
    inputs: &'static [&'static str],
}

impl Writer {
    fn new(option: &'static str, arguments: &str, inputs: &'static [&'static str]) -> Self {
        let arguments = arguments.split(' ').map(str::to_owned).collect();
        Self {
            option,
            arguments,
            inputs,
        }
    }

    /// The arguments that write to a path.
    fn to<'a>(&'a self, path: &'a str) -> Vec<&'a str> {
        let option = self.option.rsplit(' ').next().expect("an option");
        let arguments = self.arguments.iter().map(String::as_str);
        arguments.chain([option, path]).collect()
    }
}

/// Every option of the program that names a file or a folder, and whether it is written.
const OPTIONS: [(&str, bool); 37] = [
    ("bench-serve --api-key", false),
    ("chat --adapter", false),
    ("contract pipeline --out", true),
    ("contract product --out", true),
    ("data ascii-pairs --out", true),
    ("data prepare --chat-template", false),
    ("data prepare --out", true),
    ("eval --adapter", false),
    ("eval --data", false),
    ("eval --misread", true),
    ("generate --adapter", false),
    ("generate --prompts", false),
    ("import --out", true),
    ("logits --adapter", false),
    ("logits --gradients", true),
    ("logits --ids", false),
    ("logits --out", true),
    ("logits --targets", false),
    ("lora --adapter", false),
    ("lora --out", true),
    ("perplexity --adapter", false),
    ("perplexity --data", false),
    ("plot --out", true),
    ("quantize --calibrate", false),
    ("quantize --measure", false),
    ("report --out", true),
    ("serve --adapter", false),
    ("serve --api-keys", false),
    ("serve --audit", false),
    ("serve --chat-template", false),
    ("serve --key", false),
    ("serve --receipts", false),
    ("store get --out", true),
    ("tokenizer train --out", true),
    ("train --data", false),
    ("train --out", true),
    ("train --profile", true),
];

/// Options of `hlx verify`, whose golden runs take too long to be written here.
const OF_VERIFY: [(&str, bool); 6] = [
    ("verify --adapter", false),
    ("verify --against", false),
    ("verify --audit", false),
    ("verify --data", false),
    ("verify --key", false),
    ("verify --write", true),
];

/// Options of `hlx audit`, whose certificates have the time in them; `verify/audits.rs` tests where they are written.
const OF_AUDIT: [&str; 4] = [
    "audit --check",
    "audit --data",
    "audit --key",
    "audit --out",
];

/// Options of `hlx zoo`, which other verbs get.
const OF_ZOO: [&str; 10] = [
    "zoo card --zoo",
    "zoo chat --run",
    "zoo chat --zoo",
    "zoo list --zoo",
    "zoo train --data",
    "zoo train --run",
    "zoo train --zoo",
    "zoo verify --data",
    "zoo verify --run",
    "zoo verify --zoo",
];

/// Its report has rates, which no two calls share; `verbs/doctor.rs` tests where it is written.
const OF_DOCTOR: &str = "doctor --report";

/// The writers of folders, which the other tests go through.
const OF_FOLDERS: [&str; 4] = [
    "data prepare --out",
    "import --out",
    "lora --out",
    "train --out",
];

/// The options that the program's own help names.
fn options_of_help(place: &Scratch, verb: &[&str], found: &mut Vec<String>) {
    let help = place.succeeds(&[verb, &["--help"]].concat());
    let commands = help.split("\nCommands:\n").nth(1);
    if let Some(commands) = commands.and_then(|text| text.split("\n\n").next()) {
        for line in commands.lines().filter(|line| line.starts_with("  ")) {
            let name = line.split_whitespace().next().unwrap_or_default();
            let is_name = line.as_bytes().get(2).is_some_and(u8::is_ascii_lowercase);
            if is_name && name != "help" {
                options_of_help(place, &[verb, &[name]].concat(), found);
            }
        }
        return;
    }
    for line in help.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("--"));
        let kind = at.and_then(|at| words.get(at + 1));
        let is_path = kind.is_some_and(|kind| {
            let kind = kind.trim_matches(['[', ']', '<', '>']);
            ["FILE", "DIR", "FOLDER", "PATH"].contains(&kind)
        });
        let is_option = line.trim_start().starts_with('-');
        if let Some(at) = at.filter(|_| is_path && is_option && words[0] != "--store") {
            found.push(format!("{} {}", verb.join(" "), words[at]));
        }
    }
}

/// A file that is written has to be in the tests below, or in those of folders.
#[test]
fn every_option_that_names_a_file_is_known_and_tested() {
    let place = Scratch::new("outputs-options");
    let mut found = Vec::new();
    options_of_help(&place, &[], &mut found);
    found.sort();
    let mut known: Vec<&str> = OPTIONS.iter().map(|(option, _)| *option).collect();
    known.extend(OF_VERIFY.iter().map(|(option, _)| *option));
    known.push(OF_DOCTOR);
    known.extend(OF_AUDIT);
    known.extend(OF_ZOO);
    known.sort_unstable();
    assert_eq!(found, known);
    let mut tested: Vec<&str> = writers("").iter().map(|writer| writer.option).collect();
    tested.extend(OF_FOLDERS);
    tested.sort_unstable();
    tested.dedup();
    let written = OPTIONS.iter().filter(|(_, is_written)| *is_written);
    let written: Vec<&str> = written.map(|(option, _)| *option).collect();
    assert_eq!(tested, written);
}

/// The verbs that write one file, in the folder that the next test makes.
fn writers(handle: &str) -> Vec<Writer> {
    let new = Writer::new;
    let gradients = "logits hub --ids ids.npy --targets ids.npy --out l.npy";
    let train = "train images.toml --out trained --resume";
    let get = format!("store --store objects get {handle}");
    vec![
        new(
            "contract pipeline --out",
            "contract --store objects pipeline --size 2",
            &["objects/objects/OBJECT"],
        ),
        new(
            "contract product --out",
            "contract --store objects product --size 2",
            &["objects/objects/OBJECT"],
        ),
        new("data ascii-pairs --out", "data ascii-pairs --count 3", &[]),
        new(
            "eval --misread",
            "eval images",
            &[
                "images/config.toml",
                "images/checkpoints/step-000001/model.safetensors",
            ],
        ),
        new(
            "logits --gradients",
            gradients,
            &["ids.npy", "hub/config.json"],
        ),
        new(
            "logits --out",
            "logits hub --ids ids.npy",
            &["ids.npy", "hub/model.safetensors"],
        ),
        new(
            "plot --out",
            "plot run",
            &["run/metrics.jsonl", "run/checkpoints/step-000001/state.bin"],
        ),
        new(
            "report --out",
            "report run",
            &["run/metrics.jsonl", "run/chain.jsonl"],
        ),
        new("store get --out", &get, &["objects/objects/OBJECT"]),
        new(
            "tokenizer train --out",
            "tokenizer train --vocab 270 a.txt",
            &["a.txt"],
        ),
        new("train --profile", train, &["images.toml"]),
    ]
}

const IMAGES: &str = "[model]\nkind = \"mlp\"\nhidden = [8]\n[data]\nformat = \"digits\"\ncount = 50\n\
                      [train]\nmax_steps = 1\nbatch_size = 8\nlog_every = 1\n";

/// Every verb that writes one file: over an input it is refused, a device stays one, and a link stays a link.
#[cfg(unix)]
#[test]
fn files_are_not_written_where_they_are_read_nor_over_devices_and_links() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let place = Scratch::new("outputs-files");
    exported(&place, "hub", 5);
    place.write("a.txt", &"the river of light\n".repeat(40));
    place.write("images.toml", IMAGES);
    let sets = ["--set", "train.max_steps=1", "--set", "train.log_every=1"];
    place.succeeds(&[&["train", "config.toml", "--out", "run"], &sets[..]].concat());
    for run in ["images", "trained"] {
        place.succeeds(&["train", "images.toml", "--out", run]);
    }
    let handle = place.succeeds(&["store", "--store", "objects", "put", "a.txt"]);
    let handle = handle.trim_end();
    let hex = &handle["sha256:".len()..];
    let object = format!("{}/{}", &hex[..2], &hex[2..]);
    let device = device(&place);
    let is_device = || {
        let found = fs::metadata(place.join(device));
        found.is_ok_and(|found| found.file_type().is_char_device())
    };
    for (number, verb) in writers(handle).iter().enumerate() {
        for input in verb.inputs {
            let input = input.replace("OBJECT", &object);
            symlink(place.join(&input), place.join("input")).expect("linked");
            for name in [input.as_str(), &format!("hub/../{input}"), "input"] {
                let line = refuses(&place, &verb.to(name));
                let is_store = input.starts_with("objects");
                let reason = match is_store {
                    true => "lies in the store, objects",
                    false => "is the file that is read",
                };
                assert_eq!(line, format!("error: {name}: {reason}"));
            }
            fs::remove_file(place.join("input")).expect("removed");
        }
        let option = verb.option;
        place.succeeds(&verb.to(device));
        assert!(is_device(), "{option}");
        let (link, file) = (format!("link-{number}"), format!("file-{number}"));
        symlink(&file, place.join(&link)).expect("linked");
        // For a link without a file the file is made, and then replaced.
        for _ in 0..2 {
            place.succeeds(&verb.to(&link));
            assert!(place.join(&link).is_symlink(), "{option}");
        }
        let written = fs::read(place.join(&file)).expect("there");
        assert!(!written.is_empty(), "{option}");
        check_pipe(&place, verb, &written);
        let line = refuses(&place, &verb.to("nowhere/file"));
        assert!(line.starts_with("error: nowhere/file: "), "{line}");
        let line = refuses(&place, &verb.to("run"));
        assert!(line.starts_with("error: run: is a folder"), "{line}");
    }
    let both = ["--targets", "ids.npy", "--gradients", "new", "--out", "new"];
    let line = refuses(
        &place,
        &[&["logits", "hub", "--ids", "ids.npy"], &both[..]].concat(),
    );
    assert_eq!(line, "error: --gradients: new is the file of --out");
}

/// A device that swallows what is written. Root makes one of its own, so that a fault replaces that one.
#[cfg(unix)]
fn device(place: &Scratch) -> &'static str {
    let own = place.join("null");
    let mut mknod = std::process::Command::new("mknod");
    let made = mknod.arg(&own).args(["c", "1", "3"]).output();
    let is_made = made.is_ok_and(|made| made.status.success());
    if is_made && fs::write(&own, "x").is_ok() {
        return "null";
    }
    let _ = fs::remove_file(own);
    "/dev/null"
}

/// A named pipe gets what the file gets, and the standard output, which shows nothing else of verbs that print
/// nothing but where they wrote. The times of a trace differ.
#[cfg(unix)]
fn check_pipe(place: &Scratch, verb: &Writer, expected: &[u8]) {
    let option = verb.option;
    let pipe = place.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("starts").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe)
    });
    place.succeeds(&verb.to("pipe"));
    let read = reader.join().expect("ends").expect("reads");
    assert!(read == expected || option == "train --profile", "{option}");
    assert!(!read.is_empty(), "{option}");
    fs::remove_file(pipe).expect("removed");
    let output = place.hlx(&verb.to("/dev/stdout")).output();
    let output = output.expect("the program starts").stdout;
    let prints_more = ["eval --misread", "logits --gradients", "train --profile"];
    assert!(
        output == expected || prints_more.contains(&option),
        "{option}"
    );
}

/// What a kill leaves of an import over another model, as files: the new model counts, with all that belongs
/// to it, and the next call mends the folder.
#[test]
fn a_killed_import_opens_as_the_old_model_or_the_new_one() {
    let place = Scratch::new("outputs-killed");
    exported(&place, "old", 5);
    exported(&place, "new", 6);
    for model in ["old", "new"] {
        place.succeeds(&["import", model, "--out", &format!("{model}-whole")]);
    }
    let of = |model: &str| logits(&place, model);
    let (old, new) = (of("old-whole"), of("new-whole"));
    assert_ne!(old, new);
    let names = [
        "generation_config.json",
        "hlx.json",
        "model.safetensors",
        "config.json",
    ];
    let list = format!("{{\"files\": {names:?}, \"removed\": []}}");
    for stop in 0..=names.len() + 1 {
        let _ = fs::remove_dir_all(place.join("killed"));
        place.succeeds(&["import", "old", "--out", "killed"]);
        fs::create_dir(place.join("killed/.pending.7-0.tmp")).expect("made");
        place.write("killed/.pending.7-0.tmp/config.json", "{");
        assert_eq!(of("killed"), old, "staging");
        fs::create_dir(place.join("killed/pending")).expect("made");
        for name in names {
            let from = place.join("new-whole").join(name);
            fs::copy(from, place.join("killed/pending").join(name)).expect("copied");
        }
        place.write("killed/pending/set.json", &list);
        if stop > 0 {
            fs::remove_file(place.join("killed/config.json")).expect("there");
        }
        for name in &names[..stop.max(1) - 1] {
            let from = place.join("killed/pending").join(name);
            fs::rename(from, place.join("killed").join(name)).expect("moved");
        }
        assert_eq!(of("killed"), new, "stop {stop}");
        place.succeeds(&["export", "killed", &format!("exported-{stop}")]);
        let settings = place.join(&format!("exported-{stop}/generation_config.json"));
        assert_eq!(
            fs::read(settings).expect("there"),
            b"{\"seed\": 6}",
            "stop {stop}"
        );
        place.succeeds(&["import", "old", "--out", "killed"]);
        assert_eq!(of("killed"), old, "stop {stop}");
        let left = contents(&place.join("killed"));
        let left: Vec<&Path> = left.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!(left.len(), names.len(), "{left:?}");
    }
}

/// A full disk left the companions of a model's folder half written; a limit of each file's size acts as one.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_files() {
    let place = Scratch::new("outputs-full");
    exported(&place, "old", 5);
    exported(&place, "new", 6);
    place.succeeds(&["import", "old", "--out", "imported"]);
    place.succeeds(&["export", "imported", "exported"]);
    place.succeeds(&["import", "new", "--out", "other"]);
    place.succeeds(&["data", "ascii-pairs", "--count", "5", "-o", "pairs.jsonl"]);
    let script = "trap '' XFSZ; ulimit -f 2; exec \"$@\"";
    let verbs: [&[&str]; 3] = [
        &["import", "new", "--out", "imported"],
        &["export", "other", "exported"],
        &["data", "ascii-pairs", "--count", "500", "-o", "pairs.jsonl"],
    ];
    let before = contents(&place.path);
    for verb in verbs {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_hlx")]);
        shell
            .args(verb)
            .current_dir(&place.path)
            .env("HLX_DEVICE", "cpu");
        let line = common::failure(shell.output().expect("the shell starts"));
        assert!(line.contains("File too large"), "{line}");
        assert!(contents(&place.path) == before, "{verb:?}");
        place.succeeds(verb);
        for (path, bytes) in &before {
            fs::write(path, bytes).expect("restored");
        }
    }
}
