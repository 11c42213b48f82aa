"""How much memory the filters of a shard's channels may take: settings of channels come from strangers.

A channel's filter is bounded by itself. Those of the default size are as many as channels are in a worker's
cache, which weighs them; larger ones are counted together for the shard, for good: a channel's settings stay.
"""

from __future__ import annotations

import cbor2

from culm_models.sds.messages import Profile
from culm_models.sds.settings import SdsSettings
from culm_streaming.sds_channels.refusals import FilterBudgetError, FilterSizeError
from culm_streaming.sds_channels.settings import ChannelsSettings
from culm_streaming.sds_channels.state import Kind, State

_SHARD = b""


def charge_filter(state: State, profile: Profile, wanted: SdsSettings, settings: ChannelsSettings) -> None:
    """Count the filter of a channel whose settings are decided now.

    Raises FilterSizeError, FilterBudgetError, BloomShapeError; nothing is counted then.
    """
    size = wanted.filter_bytes(profile)
    if size > settings.filter_bytes:
        raise FilterSizeError(f"a filter of {size} bytes where {settings.filter_bytes} are possible")
    if size <= SdsSettings.for_profile(profile).filter_bytes(profile):
        return
    blob = state.load(Kind.FILTER_BYTES, _SHARD)
    total = size + (0 if blob is None else cbor2.loads(blob))
    if total > settings.shard_filter_bytes:
        raise FilterBudgetError(
            f"a filter of {size} bytes: the large ones of this shard have {settings.shard_filter_bytes} bytes"
        )
    state.save(Kind.FILTER_BYTES, _SHARD, cbor2.dumps(total))
