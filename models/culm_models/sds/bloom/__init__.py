"""The bloom filters of a channel, in the bytes of each profile: the door to what the modules beside hold.

| module | what it holds |
|---|---|
| layout | how large a filter is; hashes of an id, bits in bytes, per layout; nim's container around them |
| filters | our own filter, and another participant's |
| murmur, farmhash | the two hashes |
| vectors | many ids at once, where numpy is installed |
"""

from __future__ import annotations

from culm_models.sds.bloom.filters import ReceivedFilter, RollingFilter, filter_of
from culm_models.sds.bloom.layout import LAYOUTS, BloomShape, HashPair, LayoutName

__all__ = [
    "LAYOUTS",
    "BloomShape",
    "HashPair",
    "LayoutName",
    "ReceivedFilter",
    "RollingFilter",
    "filter_of",
]
