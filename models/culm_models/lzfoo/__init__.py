"""LZFoo, the compression of Bamboo Point-2-Point: literals, and copies of what came before (reference 1.6).

| module | holds |
|---|---|
| `elements` | how lengths and offsets are written and read |
| `compressor` | one direction, outgoing: what repeats is found by LZ4's C library, where it is installed |
| `decompressor` | one direction, incoming: streaming, in pieces of bounded size |
| `errors` | what is wrong with bytes that came |
"""

from culm_models.lzfoo.compressor import Compressor
from culm_models.lzfoo.decompressor import Decompressor, decompress
from culm_models.lzfoo.errors import LzfooError, LzfooLength, LzfooOffset, LzfooTruncated

__all__ = [
    "Compressor",
    "Decompressor",
    "LzfooError",
    "LzfooLength",
    "LzfooOffset",
    "LzfooTruncated",
    "decompress",
]
