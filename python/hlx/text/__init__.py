"""Texts for language models: tokenizers with chat templates, and token shards with the rows to train on.

>>> tokenizer = hlx.text.Tokenizer.train_from_iterator(["low lower lowest"] * 9, vocab_size=262)
>>> tokenizer.encode("low")
[258]
>>> tokenizer.decode([258])
'low'

`Tokenizer.from_file` reads any `tokenizer.json` with its settings and chat templates. `prepare` makes shards of files,
`Shards` reads them, and `Shards.rows` are data sets for `hlx.utils.data.DataLoader`.
"""

from hlx.text._prepare import prepare
from hlx.text._progress import Progress
from hlx.text._rows import Batches, Rows
from hlx.text._shards import Shards
from hlx.text._stream import DecodeStream
from hlx.text._tokenizer import Tokenizer

__all__ = ["Batches", "DecodeStream", "Progress", "Rows", "Shards", "Tokenizer", "prepare"]
