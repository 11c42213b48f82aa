"""What is wrong with bytes that should be LZFoo (R56)."""

from __future__ import annotations

from culm_models.errors import ModelError


class LzfooError(ModelError, code="lzfoo"):
    """Bytes that are no LZFoo, or not the one that was announced."""


class LzfooOffset(LzfooError, code="lzfoo.offset"):
    """A copy from before the beginning, from beyond the window, or from nowhere."""


class LzfooTruncated(LzfooError, code="lzfoo.truncated"):
    """The bytes end within an element."""


class LzfooLength(LzfooError, code="lzfoo.length"):
    """The output is longer or shorter than announced."""
