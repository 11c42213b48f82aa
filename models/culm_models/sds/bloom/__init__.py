"""The bloom filters of a channel, in the bytes of each profile.

| module | content |
|---|---|
| layout | the size of a filter; hashes of an id, bits in bytes, per layout; nim's container around them |
| filters | the channel's own filter, and received ones |
| murmur, farmhash | the two hashes |
| vectors | many ids at once, if numpy is installed |
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
