"""Messages of either channel, drawn by hypothesis."""

from hypothesis import strategies as st

from culm_models.bamboo.hashes import FLAVOURS, HashFlavour
from culm_models.bamboo_p2p.wire.messages import (
    MAX_SIZE,
    Adjust,
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    ControlMessage,
    DataMessage,
    Eagerness,
    Grant,
    Metadata,
    Notify,
    Propose,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)
from tests.models.bamboo_p2p.logs import make_log

numbers = st.integers(0, MAX_SIZE) | st.integers(0, 300)
flavours = st.sampled_from(sorted(FLAVOURS.values(), key=lambda flavour: flavour.name))
_ENTRIES = {name: [entry.entry_bytes for entry in make_log(9, flavour)] for name, flavour in FLAVOURS.items()}


def hashes(flavour: HashFlavour) -> st.SearchStrategy[bytes]:
    """Bytes in the form of a hash."""
    digest_size = flavour.size - len(flavour.prefix)
    return st.binary(min_size=digest_size, max_size=digest_size).map(lambda digest: flavour.prefix + digest)


@st.composite
def proposals(draw: st.DrawFn, flavour: HashFlavour) -> Propose:
    """Any proposal that can be encoded, whether or not its numbers make a range."""
    offset = draw(st.none() | numbers)
    lower = draw(numbers) if offset is None else None
    eagerness = draw(st.sampled_from(Eagerness))
    end = draw(st.none() | numbers)
    return Propose(
        draw(numbers),
        draw(st.binary(min_size=32, max_size=32)),
        draw(numbers),
        draw(numbers),
        lower,
        draw(numbers),
        draw(numbers),
        None if lower == 1 else draw(hashes(flavour)),
        eagerness,
        draw(numbers) if eagerness is Eagerness.THRESHOLD else None,
        end,
        draw(numbers) if end is not None else None,
        offset,
        payload_only=draw(st.booleans()),
        sparse=draw(st.booleans()),
        mandatory=draw(st.booleans()),
    )


@st.composite
def adjustments(draw: st.DrawFn) -> Adjust:
    """Any adjustment that changes something."""
    eagerness = draw(st.none() | st.sampled_from(Eagerness))
    optional = st.none() | numbers
    threshold = draw(numbers) if eagerness is Eagerness.THRESHOLD else None
    values = (draw(optional), draw(optional), draw(optional), draw(optional))
    may_skip = draw(st.booleans()) or (eagerness is None and set(values) == {None})
    return Adjust(draw(numbers), eagerness, threshold, may_skip, *values)


@st.composite
def cancels(draw: st.DrawFn, flavour: HashFlavour) -> Cancel:
    """Any cancel with the evidence that its code asks for."""
    code = draw(st.sampled_from(CancelCode))
    wanted = {CancelCode.HASH_MISMATCH: 1, CancelCode.FORKED: 2}.get(code, 0)
    entries = tuple(draw(st.sampled_from(_ENTRIES[flavour.name])) for _ in range(wanted))
    return Cancel(draw(numbers), code, draw(numbers) if code is CancelCode.END_OF_LOG else None, entries)


def control_messages(flavour: HashFlavour) -> st.SearchStrategy[ControlMessage]:
    """Any control message."""
    return st.one_of(st.builds(Grant, numbers), proposals(flavour), adjustments(), cancels(flavour))


def data_messages(flavour: HashFlavour) -> st.SearchStrategy[DataMessage]:
    """Any data message but payloads."""
    metadata = st.builds(
        Metadata,
        st.booleans(),
        st.none() | hashes(flavour),
        numbers,
        hashes(flavour),
        st.binary(min_size=64, max_size=64),
    )
    return st.one_of(
        st.builds(Switch, numbers),
        st.builds(Notify, numbers),
        st.builds(Skip, st.sampled_from(SkipReason)),
        st.builds(SkipBytes, numbers),
        st.just(Apology()),
        st.builds(Cancelled, numbers),
        metadata,
    )
