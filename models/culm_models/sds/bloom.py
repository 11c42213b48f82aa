"""The bloom filters of a channel, in the bytes of each profile: the door to what the modules beside hold.

| module | what it holds |
|---|---|
| bloom_shape | how large a filter is |
| bloom_layout | hashes of an id, bits in bytes, per layout |
| bloom_container | nim's container around the bits |
| rolling_filter | our own filter |
| received_filter | another participant's |
| bloom_build, bloom_vectors | many ids at once, with numpy where it is |
"""

from __future__ import annotations

from culm_models.sds.bloom_build import filter_of
from culm_models.sds.bloom_layout import LAYOUTS, HashPair, LayoutName, hash_pair
from culm_models.sds.bloom_shape import BloomShape
from culm_models.sds.received_filter import ReceivedFilter
from culm_models.sds.rolling_filter import RollingFilter

__all__ = [
    "LAYOUTS",
    "BloomShape",
    "HashPair",
    "LayoutName",
    "ReceivedFilter",
    "RollingFilter",
    "filter_of",
    "hash_pair",
]
