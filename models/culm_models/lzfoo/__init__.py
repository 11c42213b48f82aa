"""LZFoo, the compression of Bamboo Point-2-Point: literals, and copies of what came before.

`compressor` and `decompressor` are one direction of a connection each, with a history that all of it shares.
"""

from culm_models.lzfoo.compressor import Compressor
from culm_models.lzfoo.decompressor import Decompressor, LzfooError

__all__ = ["Compressor", "Decompressor", "LzfooError"]
