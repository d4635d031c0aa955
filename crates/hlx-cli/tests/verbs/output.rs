//! Standard output that is full, or closed by its reader: of every verb that prints.

use std::fs::{self, OpenOptions};
use std::io::pipe;
use std::process::{Output, Stdio};

use hlx_nn::{CausalLm, Model, export_hugging_face};

use crate::common::{Scratch, small_gpt2, text};

/// Verbs that print nothing, or to a terminal alone, and those that are other programs.
const SILENT: [&str; 4] = ["chat", "help", "serve", "bench-serve"];

/// A call of each way in which a verb prints. What one makes the next may read.
const CALLS: &[&str] = &[
    "--help",
    "--version",
    "train --help",
    "import hub --out imported",
    "export hub exported",
    "quantize hub --to q8_0 --out model.gguf",
    "eval run",
    "eval run --exact --json",
    "generate run --prompt one --max-tokens 4",
    "generate run --prompt one --samples 3 --max-tokens 4",
    "generate run --prompt one --json --max-tokens 4",
    "perplexity run --data a.txt",
    "perplexity run --data a.txt --json",
    "digest run",
    "digest run --json",
    "logits hub --ids ids.npy --out l.npy --targets ids.npy --gradients g.safetensors",
    "plot run --out curve.svg",
    "plot run --out /dev/stdout",
    "report run --out page.html",
    "report run --out page.html --json",
    "report run --out /dev/stdout",
    "compare run run",
    "compare run run --json",
    "list .",
    "list . --json",
    "watch run",
    "watch run --json",
    "doctor",
    "doctor --json",
    "doctor --quick",
    "doctor --report report.json",
    "doctor --report /dev/stdout",
    "completions bash",
    "man manual",
    "demo scalar",
    "data ascii-pairs --count 5",
    "data ascii-pairs --count 5 -o pairs.jsonl",
    "data ascii-pairs --count 5 -o /dev/stdout",
    "data prepare a.txt -o fresh",
    "data verify prepared",
    "tokenizer train --vocab 260 a.txt -o tokenizer.json",
    "tokenizer train --vocab 260 a.txt -o /dev/stdout",
    "contract product --size 8 --store store",
    "contract pipeline --size 8 --store store",
    "contract show product.json --store store",
    "contract put product.json --store store",
    "contract shader module.spv --store store",
    "run product.json --store store",
    "run product.json --store store --json",
    "store put a.txt --store store",
    "store list --store store",
    "store verify --store store",
    "store gc --dry-run --store store",
    "verify run",
    "verify run --json",
    "audit run --seed 7",
    "audit run --seed 7 --json",
    concat!("zoo list --zoo ", env!("CARGO_MANIFEST_DIR"), "/../../zoo"),
    "key show key.pub",
    "key show key.pub --pem",
];

/// A folder with what the verbs read.
pub fn place() -> Scratch {
    let place = Scratch::new("verbs-output");
    place.succeeds(&[
        "train",
        "config.toml",
        "--out",
        "run",
        "--set",
        "train.max_steps=2",
    ]);
    let product = "contract product --size 8 --store store -o product.json";
    place.succeeds(&product.split(' ').collect::<Vec<_>>());
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let config = small_gpt2();
    let model = Model::new(&device, 3, |b| CausalLm::new(b, &config)).expect("makes");
    export_hugging_face(model.weights(), &config, &place.join("hub")).expect("written");
    let ids = hlx_autograd::Tensor::from_slice::<u32>(&device, &[1, 2, 3], &[1, 3]).expect("ids");
    hlx_io::save_npy(&place.join("ids.npy"), &ids).expect("written");
    place.write("a.txt", "the river of light\n");
    place.succeeds(&["data", "prepare", "a.txt", "-o", "prepared"]);
    let module = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../hlx-kernels/spv/fill/ramp.spv"
    );
    fs::copy(module, place.join("module.spv")).expect("copied");
    place.succeeds(&["key", "new", "key"]);
    place
}

/// Runs a call with a standard output that is full.
fn full(place: &Scratch, arguments: &[&str]) -> Output {
    let full = OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let mut command = place.hlx(arguments);
    command.stdout(full).stderr(Stdio::piped());
    command.output().expect("the program starts")
}

/// Runs a call with a standard output that nobody reads any more.
fn closed(place: &Scratch, arguments: &[&str]) -> Output {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let mut command = place.hlx(arguments);
    command.stdout(writer).stderr(Stdio::piped());
    command.output().expect("the program starts")
}

#[test]
fn a_full_standard_output_is_one_line_and_a_closed_one_is_success_for_every_verb() {
    let place = place();
    let whole = place.succeeds(&["--help"]);
    let verbs = whole
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    let verbs: Vec<&str> = verbs
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|verb| !verb.is_empty())
        .collect();
    let calls: Vec<Vec<&str>> = CALLS.iter().map(|call| call.split(' ').collect()).collect();
    for verb in &verbs {
        let is_called = calls.iter().any(|call| call[0] == *verb);
        // Below, and to where the adapters are.
        let is_special = ["train", "lora"].contains(verb);
        assert!(
            is_called || is_special || SILENT.contains(verb),
            "{verb}: no call of it prints here"
        );
    }
    for arguments in &calls {
        // The log may say that a device that is found is passed over.
        let found = closed(&place, arguments);
        let lines = text(&found.stderr);
        assert_eq!(found.status.code(), Some(0), "{arguments:?}: {lines}");
        assert!(
            !lines.contains("error") && !lines.contains("panic"),
            "{arguments:?}: {lines}"
        );
        let _ = fs::remove_dir_all(place.join("fresh"));
        let found = full(&place, arguments);
        let lines = text(&found.stderr);
        assert_eq!(found.status.code(), Some(1), "{arguments:?}: {lines}");
        let errors = lines.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{arguments:?}: {lines}");
        assert!(
            lines.contains("No space left on device"),
            "{arguments:?}: {lines}"
        );
        assert!(!lines.contains("panic"), "{arguments:?}: {lines}");
    }
}

#[test]
fn a_run_keeps_its_checkpoint_whatever_becomes_of_standard_output() {
    let place = Scratch::new("verbs-train");
    let train = |out: &'static str| {
        [
            "train",
            "config.toml",
            "--set",
            "train.max_steps=2",
            "--out",
            out,
        ]
    };
    place.succeeds(&train("whole"));
    let found = closed(&place, &train("closed"));
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert_eq!(text(&found.stderr), "");
    let found = full(&place, &train("full"));
    assert_eq!(found.status.code(), Some(1));
    assert_eq!(
        text(&found.stderr),
        "error: standard output: No space left on device (os error 28)\n"
    );
    for run in ["closed", "full"] {
        assert_eq!(
            place.digests(run).parameters,
            place.digests("whole").parameters
        );
    }
}

#[test]
fn a_closed_standard_error_is_no_panic() {
    let place = Scratch::new("verbs-stderr");
    place.write("a.txt", "a");
    for (arguments, status) in [
        (&["digest", "nowhere"][..], 1),
        (&["digest"], 2),
        (&["train", "config.toml", "--set", "train.batch_size=0"], 1),
        (&["contract", "product", "--size", "8", "--store", "s"], 0),
    ] {
        for variable in ["HLX_ANYTHING", "RUST_LOG"] {
            let (reader, writer) = pipe().expect("a pipe");
            drop(reader);
            let mut command = place.hlx(arguments);
            command
                .env(variable, "trace")
                .stderr(writer)
                .stdout(Stdio::null());
            let found = command.status().expect("the program starts");
            assert_eq!(found.code(), Some(status), "{arguments:?}");
        }
    }
}

/// A reader that goes ends a generation that would take minutes.
#[test]
fn generation_ends_when_nobody_reads_it() {
    let place = Scratch::new("verbs-generate");
    place.write("a.txt", &"the river of light\n".repeat(20));
    let text = "path = \"a.txt\"\nformat = \"text\"";
    let config = fs::read_to_string(place.join("config.toml")).expect("read");
    let config = config.replace("path = \"corpus.jsonl\"\nformat = \"pairs\"", text);
    place.write("config.toml", &config);
    place.succeeds(&[
        "train",
        "config.toml",
        "--out",
        "run",
        "--set",
        "train.max_steps=1",
    ]);
    let start = std::time::Instant::now();
    let generate = [
        "generate",
        "run",
        "--prompt",
        "the",
        "--max-tokens",
        "10000000",
    ];
    let found = closed(&place, &generate);
    assert_eq!(found.status.code(), Some(0));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
