"""Runs lm-evaluation-harness by `local-completions` against a server: `check_lm_eval.py URL/v1 MODEL`.

The answers of a choice task over a local JSON file are compared with log-probabilities that are asked for one by one.
"""

import json
import os
import random
import sys
import tempfile
import urllib.request
from pathlib import Path

import lm_eval
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager

TASK = """
task: hlx_choice
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
target_delimiter: " "
metric_list: [{metric: acc}]
"""


class Bytes(LocalCompletionsAPI):
    """A model whose tokens are bytes: the harness has no such tokenizer."""

    def __init__(self, **options: object) -> None:
        super().__init__(tokenizer_backend=None, tokenized_requests=False, **options)
        self.tokenizer = self
        self.tokenized_requests = True

    @property
    def eot_token_id(self) -> int:
        """The byte that ends a text."""
        return 0

    @property
    def prefix_token_id(self) -> int:
        """What is before a text."""
        return 0

    def tok_encode(self, string: str, **_: object) -> list[int]:
        """The bytes of a text."""
        return list(string.encode())


def main(base_url: str, model: str) -> None:
    """Checks what the client gets."""
    drawn = random.Random(5)
    words = ["river", "light", "stone", "house", "one", "two"]
    documents = [
        {
            "question": " ".join(drawn.choices(words, k=4)),
            "choices": [" ".join(drawn.choices(words, k=2)) for _ in range(3)],
            "answer": drawn.randrange(3),
        }
        for _ in range(12)
    ]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["HF_DATASETS_CACHE"] = str(folder / "cache")
        data = folder / "data.jsonl"
        data.write_text("".join(json.dumps(one) + "\n" for one in documents))
        (folder / "task.yaml").write_text(TASK.replace("DATA", json.dumps(str(data))))
        found = lm_eval.simple_evaluate(
            model=Bytes(base_url=f"{base_url}/completions", model=model, num_concurrent=4, max_length=200),
            tasks=["hlx_choice"],
            task_manager=TaskManager(include_path=place, include_defaults=False),
            bootstrap_iters=0,
            log_samples=True,
            num_fewshot=0,
        )
    samples = sorted(found["samples"]["hlx_choice"], key=lambda one: one["doc_id"])
    assert len(samples) == len(documents)
    for sample, document in zip(samples, documents, strict=True):
        for (number, is_greedy), choice in zip(sample["filtered_resps"], document["choices"], strict=True):
            context, rest = list(document["question"].encode()), list(f" {choice}".encode())
            body = {"model": model, "prompt": [context + rest], "max_tokens": 0, "echo": True, "logprobs": 1}
            request = urllib.request.Request(
                f"{base_url}/completions", json.dumps(body).encode(), {"content-type": "application/json"}
            )
            logprobs = json.load(urllib.request.urlopen(request))["choices"][0]["logprobs"]
            own, top = logprobs["token_logprobs"][len(context) :], logprobs["top_logprobs"][len(context) :]
            assert float(number) == sum(own), (number, own)
            assert (str(is_greedy) == "True") == all(x == max(t.values()) for x, t in zip(own, top, strict=True))
    print("lm_eval", lm_eval.__version__, "ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
