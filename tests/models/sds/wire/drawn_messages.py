"""Hypothesis strategies: messages that a profile can say, as they come back from its bytes."""

from __future__ import annotations

from hypothesis import strategies as st

from culm_models.sds.wire.messages import PROFILES, HistoryEntry, Message, Profile

ANY_PROFILE = st.sampled_from(sorted(PROFILES))
TEXTS = st.text(max_size=40) | st.text("0123456789abcdef", min_size=64, max_size=64)
OCTETS = st.binary(max_size=40) | st.binary(min_size=120, max_size=140)


def entries(profile: Profile) -> st.SearchStrategy[HistoryEntry]:
    """History entries of a profile."""
    if profile == "nim":
        hints, senders = OCTETS.map(lambda hint: hint or None), TEXTS.map(lambda sender: sender or None)
        return st.builds(HistoryEntry, TEXTS, hints, senders)
    ids = TEXTS.filter(bool) if profile == "spec" else TEXTS
    return st.builds(HistoryEntry, ids, st.none() | OCTETS, st.none() | TEXTS)


def messages(profile: Profile) -> st.SearchStrategy[Message]:
    """Messages of a profile, of every kind that it has."""
    lists = st.lists(entries(profile), max_size=4).map(tuple)
    lamports = st.integers(0, 300) | st.integers(0, PROFILES[profile].lamport_max)
    ids = TEXTS.filter(bool) if profile == "spec" else TEXTS
    if profile == "nim":
        maybe = OCTETS.map(lambda octets: octets or None)
        return st.builds(Message, TEXTS, TEXTS, TEXTS, lamports, lists, maybe, maybe, lists)
    maybe = st.none() | OCTETS
    with_lamport = st.builds(Message, ids, ids, ids, lamports, lists, maybe, maybe, lists)
    ephemeral = st.builds(Message, ids, ids, ids, st.none(), lists, maybe, OCTETS.filter(bool), lists)
    return with_lamport | ephemeral


MESSAGES = ANY_PROFILE.flatmap(lambda profile: st.tuples(st.just(profile), messages(profile)))
