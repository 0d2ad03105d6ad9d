"""One tokenizer a vocabulary for a whole test process. It encodes by the trie: pyrwkv-tokenizer takes 240 MB, and gives
the same ids, as `tests/unit/engine/test_tokenizer.py` shows."""

from functools import cache

from rwkv_engine.tokenizer import WORLD_SIZE, Tokenizer, for_vocabulary, world_table


@cache
def vocabulary(size: int) -> Tokenizer:
    """What `for_vocabulary` gives, to be shared."""
    return Tokenizer(world_table(), size) if size == WORLD_SIZE else for_vocabulary(size)
