"""What tokenizers are trained with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hlx.text._checks import MAX_VOCAB, WORDS, text_of, texts_of, whole

#: The characters of texts that are counted at once.
_CHUNK = 1 << 20


def trainer_of(
    operation: str, vocab_size: int, min_frequency: int, special: Sequence[str]
) -> tuple[int, int, list[str]]:
    """The numbers and the special tokens of a training."""
    size = whole(operation, "vocab_size", vocab_size, 1, MAX_VOCAB)
    least = whole(operation, "min_frequency", min_frequency, 0, WORDS - 1)
    return size, least, texts_of(operation, "special_tokens", special)


def chunks_of(operation: str, texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts, as many at a time as are worth a call."""
    chunk: list[str] = []
    size = 0
    for place, text in enumerate(texts):
        chunk.append(text_of(operation, f"texts[{place}]", text))
        size += len(text)
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
