"""The bloom filters of a channel, in the bytes of each profile: the door to what the modules beside hold.

| module | what it holds |
|---|---|
| layout | how large a filter is; hashes of an id, bits in bytes, per layout; nim's container around them |
| rolling_filter | our own filter |
| received_filter | another participant's, and which of the newest ids it lacks |
| murmur, farmhash | the two hashes |
| build, vectors | many ids at once, with numpy where it is |
"""

from __future__ import annotations

from culm_models.sds.bloom.build import filter_of
from culm_models.sds.bloom.layout import LAYOUTS, BloomShape, HashPair, LayoutName
from culm_models.sds.bloom.received_filter import ReceivedFilter
from culm_models.sds.bloom.rolling_filter import RollingFilter

__all__ = [
    "LAYOUTS",
    "BloomShape",
    "HashPair",
    "LayoutName",
    "ReceivedFilter",
    "RollingFilter",
    "filter_of",
]
