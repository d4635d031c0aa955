//! The floors of folders, and the parts of folders that import each other in a circle.

/// The parts of a folder from the ground up; those of one floor do not import each other. A part that
/// is not listed may be anywhere, as long as it takes no listed part to one above it.
pub struct Floors {
    pub folder: &'static str,
    pub floors: &'static [&'static [&'static str]],
}

/// Parts of a folder, of one floor, that import each other in a circle, and why they must.
pub struct Knot {
    pub folder: &'static str,
    pub parts: &'static [&'static str],
    #[expect(dead_code, reason = "for readers of the list")]
    pub reason: &'static str,
}

/// In the folders inside of these a launcher and its CPU twin know each other: they are not checked.
pub const OF_FAMILIES: &[&str] = &["crates/hlx-kernels/src/"];

pub const FLOORS: &[Floors] = &[
    Floors {
        folder: "crates/hlx-core/src",
        floors: &[
            &["arith", "bytes", "error", "notice", "shader", "timing"],
            &["arithmetic", "environment", "files", "sizes"],
            &["dtype"],
            &["cpu", "digest"],
            &["device_info", "memory", "underflow"],
            &["multiversion", "tuning", "view"],
            &["launch", "unread"],
            &["fusion", "watched"],
            &["cpu_stream", "vulkan"],
            &["stream"],
            &["graph"],
            &["device"],
            &["dispatch", "peak", "testing"],
            &["probe"],
            &["open"],
        ],
    },
    Floors {
        folder: "crates/hlx-store/src",
        floors: &[
            &["error", "handle", "object"],
            &["buffers", "folder", "gc", "verify", "write"],
            &["pins", "read"],
        ],
    },
    Floors {
        folder: "crates/hlx-gguf/src",
        floors: &[
            &["error"],
            &["kind", "value"],
            &["metadata", "recipe"],
            &["cursor", "parts"],
            &["blocks", "header"],
            &["gguf", "quantise", "writer"],
            &["model", "tokenizer"],
        ],
    },
    Floors {
        folder: "crates/hlx-kernels/src",
        floors: &[
            &["error"],
            &["layout", "tuning"],
            &["convert"],
            &["kernel"],
            &["chain", "columns", "pairs", "rows"],
            &["map"],
            &["elementwise"],
            &["indexing"],
            &["sort"],
            &["product"],
            &["attention", "conv2d", "optimizer"],
        ],
    },
    Floors {
        folder: "crates/hlx-contract/src",
        floors: &[
            &["error", "spirv"],
            &["scalar"],
            &["kernel", "shader"],
            &["pipeline"],
            &["encoding"],
            &["own"],
            &["loaded", "product"],
            &["check", "twins"],
            &["execute"],
        ],
    },
    Floors {
        folder: "crates/hlx-python/src",
        floors: &[
            &["copies", "error", "gate"],
            &["arguments", "dtype", "fork", "keywords", "number", "random"],
            &["wait", "warnings"],
            &["device"],
            &["tensor"],
            &["host", "read"],
            &["buffers", "files"],
            &["dlpack"],
            &["create"],
            &["operand"],
            &["autograd", "contract", "protocols", "text"],
            &["compute", "operations"],
            &["models"],
            &["optimizer", "runs"],
        ],
    },
    Floors {
        folder: "crates/hlx-autograd/src",
        floors: &[
            &["error", "samples"],
            &["graph"],
            &["create", "device", "display", "gradcheck", "reuse"],
            &["ops"],
            &["in_place"],
        ],
    },
    Floors {
        folder: "crates/hlx-data/src",
        floors: &[
            &["error", "random"],
            &[
                "ascii_pairs",
                "dataset",
                "digits",
                "idx",
                "item",
                "transform",
            ],
            &["image_set", "image_transform", "loader"],
            &["cifar", "misread"],
        ],
    },
    Floors {
        folder: "crates/hlx-text/src",
        floors: &[
            &["error", "guard", "jinja"],
            &["shards", "tokenizer"],
            &["batch", "chat", "preparation"],
            &["prepare"],
        ],
    },
    Floors {
        folder: "crates/hlx-ranks/src",
        floors: &[
            &["error", "pause", "text"],
            &["gpu", "secret", "transport", "watch"],
            &["secure"],
            &["links"],
            &["group", "sockets"],
            &["mpi", "nccl", "peers", "shared"],
        ],
    },
    Floors {
        folder: "crates/hlx-nn/src",
        floors: &[
            &["error", "init", "limits"],
            &["parameters"],
            &["layers", "optimizer"],
            &["decoder"],
            &["models"],
            &["files"],
        ],
    },
    Floors {
        folder: "crates/hlx-train/src",
        floors: &[
            &["companions", "exp", "opening", "random"],
            &["special_tokens"],
            &["sample"],
            &["config"],
            &["data", "run", "schedule"],
            &["curve", "engine", "ranks", "rows"],
            &["generate"],
            &["chat", "evaluate", "metric_line", "perplexity"],
            &["task"],
            &["image_report", "trained"],
            &["model_folder"],
            &["text_source", "train"],
            &["model_source"],
            &["golden", "receipts", "timing", "verify"],
            &["audit"],
        ],
    },
    Floors {
        folder: "benches/src",
        floors: &[
            &["facts", "maker", "power", "print", "resnet", "statistics"],
            &[
                "attention",
                "axes",
                "chains",
                "convolution",
                "integers",
                "norms",
            ],
            &["cases"],
            &["work"],
            &["measure"],
            &["decode", "serve"],
            &["prove"],
            &["report"],
        ],
    },
];

pub const KNOTS: &[Knot] = &[
    Knot {
        folder: "crates/hlx-core/src/arith",
        parts: &[
            "arc",
            "divide",
            "exp_log",
            "exp_log_variants",
            "ops",
            "pow",
            "random",
            "sin_cos",
            "sinh_cosh",
            "tan",
            "tanh_erf",
        ],
        reason: "The functions are methods of FloatOps, and are written for every FloatOps.",
    },
    Knot {
        folder: "crates/hlx-core/src/memory",
        parts: &["arena", "block", "buffer", "pool"],
        reason: "A buffer's block goes back to the pool or the arena that it came from.",
    },
    Knot {
        folder: "crates/hlx-core/src/vulkan",
        parts: &["device", "memory", "pipeline", "sharing"],
        reason: "A device holds its memory, pipelines and semaphores, which are made by it.",
    },
    Knot {
        folder: "crates/hlx-store/src",
        parts: &["error", "handle", "object"],
        reason: "An error names handles and types, and what reads these returns it.",
    },
    Knot {
        folder: "crates/hlx-autograd/src/graph",
        parts: &["backward", "hook", "input", "saved", "tape", "tensor"],
        reason: "A tensor holds its place on the tape, whose rules capture tensors.",
    },
    Knot {
        folder: "crates/hlx-nn/src/parameters",
        parts: &["builder", "parts", "set", "weights"],
        reason: "A builder makes weights, which hand out sets and parts of themselves.",
    },
    Knot {
        folder: "crates/hlx-text/src/jinja",
        parts: &[
            "args",
            "ast",
            "collections",
            "numbers",
            "objects",
            "ops",
            "percent",
            "print",
            "value",
        ],
        reason: "Values hold lists, macros and their syntax trees, which hold values.",
    },
    Knot {
        folder: "crates/hlx-text/src/jinja",
        parts: &[
            "eval",
            "filters",
            "filters_lists",
            "filters_numbers",
            "filters_texts",
        ],
        reason: "Expressions apply filters, and filters such as map apply others.",
    },
];
