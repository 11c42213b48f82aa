"""What is wrong with bytes that should be LZFoo (R56)."""

from __future__ import annotations

from typing import ClassVar

from culm_models.errors import ModelError


class LzfooError(ModelError):
    """Bytes that are no LZFoo, or not the one that was announced."""

    code: ClassVar[str] = "lzfoo"


class LzfooOffset(LzfooError):
    """A copy from before the beginning, from beyond the window, or from nowhere."""

    code: ClassVar[str] = "lzfoo.offset"


class LzfooTruncated(LzfooError):
    """The bytes end within an element."""

    code: ClassVar[str] = "lzfoo.truncated"


class LzfooLength(LzfooError):
    """The output is longer or shorter than announced."""

    code: ClassVar[str] = "lzfoo.length"
