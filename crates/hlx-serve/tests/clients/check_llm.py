"""Runs the program `llm` against a server: `check_llm.py http://127.0.0.1:8000/v1 MODEL`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ENTRY = """
- model_id: served
  model_name: {model}
  api_base: "{base}"
"""


def main(base_url: str, model: str) -> None:
    """Checks what the client gets."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "extra-openai-models.yaml").write_text(ENTRY.format(model=model, base=base_url))
        environment = {**os.environ, "LLM_USER_PATH": place, "OPENAI_API_KEY": "none"}

        def ask(*arguments: str) -> str:
            command = [sys.executable, "-m", "llm", "-m", "served", "-o", "seed", "5", "-o", "max_tokens", "20"]
            ran = subprocess.run([*command, *arguments], env=environment, capture_output=True, check=False)
            assert ran.returncode == 0, ran.stderr.decode()
            return ran.stdout.decode(errors="replace").strip()

        whole = ask("--no-stream", "-s", "be kind", "light")
        assert whole
        assert ask("-s", "be kind", "light") == whole
    print("llm ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
