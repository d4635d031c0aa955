"""Evaluation with lm-evaluation-harness (`pip install lm_eval`): its class of models over `hlx.models.CausalLM`.

From Python:

    import lm_eval
    from hlx.integrations.lm_eval import HLX

    results = lm_eval.simple_evaluate(HLX("model"), tasks=["hellaswag"])

From a shell, with the options of the harness:

    python -m hlx.integrations.lm_eval run --model hlx --model_args pretrained=model --tasks hellaswag
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "HLX":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hlx.integrations._lm_eval import HLX
    except ModuleNotFoundError as error:
        raise ImportError(f"HLX: needs lm-evaluation-harness (pip install lm_eval): {error}") from error
    return HLX


def _main() -> None:
    """The program of the harness, which knows the model `hlx`."""
    from lm_eval.__main__ import cli_evaluate

    import hlx.integrations._lm_eval  # noqa: F401 (registers the model)

    cli_evaluate()


if __name__ == "__main__":
    _main()
