"""Runs lm-evaluation-harness on models of HLX and on the same models in transformers, and compares every answer.

    python judge_lm_eval.py [--device cpu] [--documents N] [--families llama,gpt2,qwen3] [--json FILE]

transformers saves small models with random weights; `tokenizers` trains their tokenizer, which has a chat template. The
tasks read a local JSON file: a choice of four (by log-likelihood), the perplexity of texts that are longer than the
model's positions, and generation up to a stop with an exact match. They run plainly and, except perplexity, as
conversations with two shots. Two thirds of the expected texts are what transformers generates, so that the match is
neither 0 nor 1.

An answer **passes** if its log-probability is within 2e-4 (absolutely, or of its size) of transformers', if it is greedy
where theirs is, and if its text is theirs. The scores of a task have to agree as closely. HLX also answers with another
batch size, and has to give equal bits. Nothing is fetched. Needs lm_eval, datasets, transformers, tokenizers, PyTorch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOLERANCE = 2e-4
POSITIONS = 96
WORDS = (
    "red blue green small large round old new house tree river stone cat dog bird ship light dark seven nine".split()
)
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TASKS = {
    "hlx_choice": """
task: hlx_choice
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
target_delimiter: " "
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "hlx_perplexity": """
task: hlx_perplexity
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
""",
    "hlx_generate": """
task: hlx_generate
output_type: generate_until
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{expected}}"
target_delimiter: " "
generation_kwargs: {until: ["\\n", "."], max_gen_toks: 12, do_sample: false}
metric_list: [{metric: exact_match}]
""",
}
COMMON = """
dataset_path: json
dataset_kwargs: {data_files: {test: DATA, train: SHOTS}}
test_split: test
fewshot_split: train
"""


def documents(count: int, seed: int) -> list[dict[str, Any]]:
    """Questions with choices, and texts longer than the model's positions."""
    drawn = random.Random(seed)

    def words(least: int, most: int) -> str:
        return " ".join(drawn.choice(WORDS) for _ in range(drawn.randint(least, most)))

    return [
        {
            "question": words(3, 12),
            "choices": [words(1, 4) for _ in range(4)],
            "answer": drawn.randrange(4),
            "text": words(60, 200) + ".",
            "expected": words(1, 3),
        }
        for _ in range(count)
    ]


def save_model(family: str, folder: Path) -> None:
    """A random model of transformers with a trained tokenizer."""
    import torch
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    corpus = [f"Question: {one['question']}\nAnswer: {one['text']}" for one in documents(200, 7)]
    special = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>"]
    trained.train_from_iterator(corpus, vocab_size=320, special_tokens=special, show_progress=False)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    size = {"vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0}
    wide = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape = wide | {"num_key_value_heads": 2, "max_position_embeddings": POSITIONS, "initializer_range": 0.15}
    config: Any
    if family == "gpt2":
        config = transformers.GPT2Config(
            n_embd=64, n_layer=2, n_head=4, n_positions=POSITIONS, initializer_range=0.15, **size
        )
    elif family == "llama":
        config = transformers.LlamaConfig(**shape, **size)
    else:
        config = transformers.Qwen3Config(head_dim=16, **shape, **size)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)


def evaluated(model: Any, names: list[str], folder: Path, chat: bool) -> dict[str, Any]:
    """The results of the harness on a model."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    shots = (
        {"num_fewshot": 2, "apply_chat_template": True, "fewshot_as_multiturn": True} if chat else {"num_fewshot": 0}
    )
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found = lm_eval.simple_evaluate(
        model=model, tasks=names, task_manager=manager, bootstrap_iters=0, log_samples=True, verbosity="ERROR", **shots
    )
    assert found is not None
    return found


def answers(results: dict[str, Any]) -> dict[str, list[Any]]:
    """What a model has answered to each document of each task, in the documents' order."""
    found = {}
    for name, samples in results["samples"].items():
        ordered = sorted(samples, key=lambda sample: sample["doc_id"])
        found[name] = [answer[0] for sample in ordered for answer in sample["resps"]]
    return found


def scores(results: dict[str, Any]) -> dict[str, float]:
    """The scores by task and metric."""
    return {
        f"{name} {metric.split(',')[0]}": value
        for name, metrics in results["results"].items()
        for metric, value in metrics.items()
        if isinstance(value, float) and "stderr" not in metric
    }


def is_close(ours: float, theirs: float) -> bool:
    """Whether two numbers agree within rounding."""
    return abs(ours - theirs) <= TOLERANCE * max(1.0, abs(theirs))


def agrees(ours: Any, theirs: Any) -> bool:
    """Whether two answers are the same: texts, or log-probabilities with their greediness."""
    if isinstance(theirs, tuple | list):
        return is_close(float(ours[0]), float(theirs[0])) and bool(ours[1]) == bool(theirs[1])
    if isinstance(theirs, str):
        return bool(ours == theirs)
    return is_close(float(ours), float(theirs))


def differences(pairs: list[tuple[Any, Any]]) -> list[float]:
    """How far log-probabilities are apart."""
    numbers = [(a[0], b[0]) if isinstance(b, tuple | list) else (a, b) for a, b in pairs if not isinstance(b, str)]
    return [abs(float(a) - float(b)) for a, b in numbers]


def write_tasks(folder: Path, docs: list[dict[str, Any]], shots: list[dict[str, Any]]) -> None:
    """The tasks and their documents."""
    for name, content in (("data", docs), ("shots", shots)):
        (folder / f"{name}.json").write_text("".join(json.dumps(one) + "\n" for one in content))
    for name, text in TASKS.items():
        common = COMMON.replace("DATA", str(folder / "data.json")).replace("SHOTS", str(folder / "shots.json"))
        (folder / f"{name}.yaml").write_text(text + common)


def judged(family: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The comparison of one family."""
    from lm_eval.models.huggingface import HFLM

    from hlx.integrations.lm_eval import HLX

    model_folder, tasks = folder / "model", folder / "tasks"
    tasks.mkdir(parents=True)
    save_model(family, model_folder)
    docs, shots = documents(options.documents, 1), documents(4, 2)
    write_tasks(tasks, docs, shots)
    theirs = HFLM(pretrained=str(model_folder), device="cpu", batch_size=8, dtype="float32")
    for first, chat in ((0, False), (1, True)):
        generated = answers(evaluated(theirs, ["hlx_generate"], tasks, chat))["hlx_generate"]
        for place in range(first, len(docs), 3):
            docs[place]["expected"] = generated[place]
    n_texts = len({doc["expected"] for doc in docs if doc["expected"].strip()})
    if 3 * n_texts < len(docs):
        sys.exit(
            f"judge_lm_eval: {family} writes {n_texts} different texts after {len(docs)} questions: they tell little"
        )
    # The loader of the harness knows a file by its name, and would read the former one again.
    tasks = folder / "matched"
    tasks.mkdir()
    write_tasks(tasks, docs, shots)
    ours = [HLX(model_folder, device=options.device, batch_size=size) for size in (8, 5)]
    digest = hashlib.sha256()
    found: dict[str, Any] = {"passed": 0, "failed": 0, "failures": [], "scores": {}, "largest": 0.0}
    for names, chat in ((list(TASKS), False), (["hlx_choice", "hlx_generate"], True)):
        reference = evaluated(theirs, names, tasks, chat)
        results = evaluated(ours[0], names, tasks, chat)
        again = answers(evaluated(ours[1], names, tasks, chat))
        kind = "chat " if chat else ""
        expected, given = answers(reference), answers(results)
        digest.update(json.dumps(given).encode())
        for name in names:
            pairs = list(zip(given[name], expected[name], strict=True))
            found["largest"] = max([found["largest"], *differences(pairs)])
            for place, (own, other) in enumerate(pairs):
                is_equal = agrees(own, other)
                found["passed" if is_equal else "failed"] += 1
                if not is_equal:
                    found["failures"].append(f"{kind}{name} answer {place}: {own}, expected {other}")
            if again[name] != given[name]:
                found["failures"].append(f"{kind}{name}: other bits with another batch size")
        known, own_scores = scores(reference), scores(results)
        for name, value in known.items():
            found["scores"][kind + name] = [own_scores[name], value]
            if not is_close(own_scores[name], value):
                found["failures"].append(f"{kind}{name}: {own_scores[name]}, expected {value}")
    found["digest"] = digest.hexdigest()
    return found


def main() -> int:
    """Judges the families; 1 if something differs."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import lm_eval
    import transformers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--documents", type=int, default=0, help="by default 60, and 12 on other devices than the CPU")
    parser.add_argument("--families", default="llama,gpt2,qwen3")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.documents = options.documents or (60 if options.device == "cpu" else 12)
    started = time.monotonic()
    report: dict[str, Any] = {
        "suite": "lm-eval",
        "version": f"lm_eval {lm_eval.__version__}, transformers {transformers.__version__}",
        "device": options.device,
        "documents": options.documents,
        "families": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for family in options.families.split(","):
            found = judged(family, Path(folder) / family, options)
            report["families"][family] = found
            print(
                f"{family}: {found['passed']} answers passed, {found['failed']} failed; log-probabilities differ by "
                f"{found['largest']:.1e} at most; digest of HLX's answers {found['digest'][:16]}"
            )
            for name, (own, other) in found["scores"].items():
                print(f"  {name}: {own:.6f}, transformers {other:.6f}")
            for failure in found["failures"][:20]:
                print(f"  {failure}")
    for name in ("passed", "failed"):
        report[name] = sum(found[name] for found in report["families"].values())
    report["seconds"] = round(time.monotonic() - started, 1)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(found["failures"] for found in report["families"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
