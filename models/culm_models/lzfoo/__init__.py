"""LZFoo, the compression of Bamboo Point-2-Point: literals, and copies of what came before."""

from culm_models.lzfoo.compressor import Compressor
from culm_models.lzfoo.decompressor import Decompressor, LzfooError

__all__ = ["Compressor", "Decompressor", "LzfooError"]
