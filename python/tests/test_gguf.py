"""`hlx.load_model` and `hlx.text.Tokenizer` of a GGUF file."""

from pathlib import Path

import pytest

import hlx

FILES = Path(__file__).parents[2] / "crates/hlx-gguf/tests/fixtures/models"
BLOCKS = Path(__file__).parents[2] / "zoo/weights/ascii-llama.gguf"


def load(name: str, **options: object) -> hlx.models.CausalLM:
    """A model of a fixture in float32."""
    return hlx.load_model(FILES / f"{name}.gguf", "cpu", dtype=hlx.float32, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["llama", "qwen3moe", "gemma2"])
def test_a_file_is_the_model_that_is_saved_of_it(name: str, tmp_path: Path) -> None:
    """Parameters, logits, tokens and texts."""
    model = load(name)
    model.save(tmp_path / "folder")
    again = hlx.load_model(tmp_path / "folder", "cpu")
    assert model.digest() == again.digest()
    ids = hlx.tensor([[1, 20, 3, 40, 5]], dtype=hlx.uint32, device="cpu")
    assert model(ids).detach().numpy().tobytes() == again(ids).detach().numpy().tobytes()
    if model.tokenizer is not None:
        assert again.tokenizer is not None
        text = "Hello world"
        assert model.tokenizer.encode(text) == again.tokenizer.encode(text)
        texts = [one.generate(text, max_new_tokens=6).text for one in (model, again)]
        assert texts[0] == texts[1]


def test_matrices_of_16_bits_stay_so() -> None:
    """As those of a Hugging Face folder."""
    model = hlx.load_model(FILES / "llama.gguf", "cpu")
    assert model.dtype == hlx.float16


def test_the_tokenizer_of_a_file_is_read_alone() -> None:
    """Without the model."""
    tokenizer = hlx.text.Tokenizer.from_file(FILES / "llama.gguf")
    model = load("llama")
    assert model.tokenizer is not None
    assert tokenizer.encode("Hello world") == model.tokenizer.encode("Hello world")


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    """In one line."""
    path = tmp_path / "text.gguf"
    path.write_text("no such thing")
    with pytest.raises(ValueError, match="text.gguf: is no GGUF file"):
        hlx.load_model(path, "cpu")
    path.write_bytes((FILES / "llama.gguf").read_bytes()[:-40])
    with pytest.raises(ValueError, match="text.gguf: "):
        hlx.load_model(path, "cpu")


def test_adapters_are_trained_over_the_blocks(tmp_path: Path) -> None:
    """QLoRA: the adapters alone are parameters, the file's blocks stay, and PEFT's files bring the bits back."""
    model = hlx.load_model(BLOCKS, "cpu")
    ids = hlx.tensor([[5, 9, 2, 7, 1, 3]], device=model.device)
    before = model(ids)
    model.add_adapter(2, 4.0, ["q_proj", "v_proj", "down_proj"], seed=1)
    assert hlx.equal(model(ids), before)
    assert all(".lora_" in name for name, _ in model.named_parameters())
    optimizer = hlx.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = hlx.nn.functional.cross_entropy(logits.reshape(5, -1), ids[:, 1:].reshape(5))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    model.save_adapter(tmp_path / "adapter")
    read = hlx.load_model(BLOCKS, "cpu", adapter=tmp_path / "adapter")
    assert hlx.equal(read(ids), model(ids))
    assert not hlx.equal(model(ids), before)
    # In integer a merged weight has other integers than blocks; in portable sums differ by their rounding alone.
    wide = hlx.load_model(BLOCKS, "cpu", arithmetic="portable", adapter=tmp_path / "adapter")
    apart = wide(ids.to(wide.device))
    wide.merge_adapter()
    assert wide.adapter_config is None
    assert hlx.allclose(wide(ids.to(wide.device)), apart, atol=1e-4)
