"""Messages of set reconciliation as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from culm_models.p2panda.wire.messages import Bound
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)


def reconciliation_messages(
    numbers: st.SearchStrategy[int], bounds: st.SearchStrategy[Bound]
) -> st.SearchStrategy[ReconciliationMessage]:
    """Each message type, in each of its lengths, of sessions with these numbers and about these bounds."""
    return st.one_of(
        st.builds(EmptySet, numbers, st.booleans()),
        st.builds(LowerBound, numbers, bounds),
        st.builds(Payload, numbers, bounds),
        st.builds(Payload, numbers, bounds, st.booleans()),
        st.builds(Payload, numbers, bounds, st.booleans(), bounds),
        st.builds(EmptyPayload, numbers, bounds),
        st.builds(Done, numbers, bounds),
        st.builds(Fingerprint, numbers, st.binary(max_size=64), bounds),
        st.builds(Terminal, numbers),
    )
