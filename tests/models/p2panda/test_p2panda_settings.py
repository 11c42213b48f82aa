"""Settings of a peer: what cannot be is refused with a code, also where assertions are off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from culm_models.p2panda.errors import PeerSettingsError
from culm_models.p2panda.settings import PeerSettings


@pytest.mark.parametrize(
    "changed",
    [
        {"modes": ()},
        {"rule": "odd"},
        {"payload_threshold": 0},
        {"range_division": 1},
        {"lift": "xor64", "lifts": ("add128",)},
        {"lifts": ("add128", "md5")},
        *(
            {name: 0}
            for name in (
                "max_message_bytes",
                "max_events",
                "max_outgoing",
                "max_outgoing_bytes",
                "max_sessions_per_peer",
                "max_sessions",
                "max_schema_ids",
            )
        ),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(PeerSettingsError) as refused:
        replace(PeerSettings(), **changed)
    assert refused.value.code == "p2panda.settings"
