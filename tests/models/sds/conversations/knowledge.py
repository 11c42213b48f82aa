"""Conversations about what participants let each other know: hints, siblings, and what syncs name."""

from typing import Final

from tests.models.sds.conversations.script import T0, Script, event
from tests.models.sds.conversations.wires import sync_id

# Hints in hexadecimal: "a1" and "b1".
ALICES: Final = "6131"
STORES: Final = "6231"


def retrieval_hints(profile: str) -> Script:
    """A causal history says how to retrieve what it names, as far as its writer knows."""
    talk = Script(
        "retrieval hints", profile, "one knows its own hint, the other one of the store", alice={}, bob={}
    )
    first, second = talk.lamport(T0, 1_000), talk.lamport(T0 + 1_000, 1_002)
    m1 = talk.message("alice", "m1", first, content="1")
    talk.sends(T0, m1, event("sent", "m1", "alice"), why="its own message never says its hint", hint=ALICES)
    talk.receives(
        T0 + 10,
        "bob",
        m1,
        event("received", "m1"),
        event("delivered", "m1", retrieval_hint="b1"),
        why="whoever brought it to bob knows another one",
        hint=STORES,
    )
    m2 = talk.message("bob", "m2", second, content="2", history=[("m1", "alice", STORES)], filter=["m1"])
    talk.sends(T0 + 1_000, m2, event("sent", "m2", "bob"), why="Send: a retrieval_hint for each entry")
    talk.receives(
        T0 + 1_010,
        "alice",
        m2,
        event("acknowledged", "m1", "alice"),
        event("received", "m2"),
        event("delivered", "m2", retrieval_hint=None),
        why="nobody has told a hint for m2",
    )
    third = talk.lamport(T0 + 2_000, 1_004)
    m3 = talk.message(
        "alice",
        "m3",
        third,
        content="3",
        history=[("m1", "alice", ALICES), ("m2", "bob")],
        filter=["m1", "m2"],
    )
    talk.sends(T0 + 2_000, m3, event("sent", "m3", "alice"), why="alice's hint is her own")
    log = [(first, "m1"), (second, "m2"), (third, "m3")]
    talk.ends("alice", lamport=third, log=log, outgoing=[("m3", "unacknowledged")])
    return talk


def hosted_together(profile: str) -> Script:
    """Two participants in one place hear each other as they hear everyone else."""
    talk = Script(
        "hosted together", profile, "ann and abe share a house", house={"hosts": ["ann", "abe"]}, bob={}
    )
    first, second = talk.lamport(T0, 1_000), talk.lamport(T0 + 1_000, 1_001)
    m1 = talk.message("ann", "m1", first, content="1")
    m2 = talk.message("abe", "m2", second, content="2", history=[("m1", "ann")], filter=["m1"])
    talk.sends(
        T0,
        m1,
        event("sent", "m1", "ann", position=0),
        event("delivered", "m1", sender_id="ann", content="1", position=0),
        hosted_by="house",
        why="abe has it at once; what is sent moves the Lamport timestamp of both to it",
    )
    talk.sends(
        T0 + 1_000,
        m2,
        event("sent", "m2", "abe", position=1),
        event("acknowledged", "m1", "ann", by="causal_history", evidence=["abe"]),
        event("delivered", "m2", sender_id="abe", position=1),
        hosted_by="house",
        why="abe's causal history names m1",
    )
    for step, message in enumerate((m1, m2)):
        talk.receives(
            T0 + 1_010 + step,
            "bob",
            message,
            event("received", message["id"]),
            event("delivered", message["id"], position=step),
            why="they look like two to others",
        )
    last = talk.lamport(T0 + 2_000, 1_003)
    b1 = talk.message(
        "bob", "b1", last, content="3", history=[("m1", "ann"), ("m2", "abe")], filter=["m1", "m2"]
    )
    talk.sends(T0 + 2_000, b1, event("sent", "b1", "bob"), why="nim stands at max(1001, 1001) + 1 before it")
    talk.receives(
        T0 + 2_010,
        "house",
        b1,
        event("acknowledged", "m2", "abe", by="causal_history", evidence=["bob"]),
        event("received", "b1"),
        event("delivered", "b1", position=2),
        why="one delivery for the house",
    )
    log = [(first, "m1"), (second, "m2"), (last, "b1")]
    talk.ends("house", lamport=talk.lamport(T0 + 2_000, 1_004), log=log)
    talk.ends("bob", lamport=last, log=log, outgoing=[("b1", "unacknowledged")])
    return talk


def syncs_name(profile: str) -> Script:
    """What no causal history has named is named by a later sync; a re-send is answered within seconds."""
    talk = Script("syncs name", profile, "bob only listens", alice={}, bob={})
    ids = ["m1", "m2", "m3", "m4"]
    entries = [(one, "alice") for one in ids]
    messages = [
        talk.message("alice", ids[at], T0 + at, content="!", history=entries[:at][-2:], filter=ids[:at])
        for at in range(4)
    ]
    for step, message in enumerate(messages):
        name = message["id"]
        talk.sends(T0 + step, message, event("sent", name, "alice"), why="alice speaks")
        talk.receives(
            T0 + 10 + step,
            "bob",
            message,
            event("received", name),
            event("delivered", name, position=step),
            why="bob gets all",
        )
    waits = [T0 + 31_000, T0 + 100_000, T0 + 190_000]
    names = [sync_id(b"bob", "bob", number) for number in range(3)]
    regular = talk.message("bob", names[0], waits[0], history=entries[2:], filter=ids)
    talk.ticks(
        waits[0],
        "bob",
        "sync",
        event("sync_sent", names[0], "bob"),
        says=[("sync", regular)],
        why="the longest half wait is over: the two last messages are named, all four are shown",
    )
    talk.receives(
        waits[0] + 10,
        "alice",
        regular,
        event("sync_received", names[0]),
        event("acknowledged", "m3", "alice", by="causal_history"),
        event("acknowledged", "m4", "alice", by="causal_history"),
        event("possibly_acknowledged", "m1", "alice", evidence=["bob"]),
        event("possibly_acknowledged", "m2", "alice", evidence=["bob"]),
        why="one participant's filter is no certainty",
    )
    fuller = talk.message("bob", names[1], waits[1], history=entries, filter=ids)
    talk.ticks(
        waits[1],
        "bob",
        "sync",
        event("sync_sent", names[1], "bob"),
        says=[("sync", fuller)],
        why="60 s of quiet are over: m1 and m2 were only shown so far, so they are named first",
    )
    m1 = messages[0]
    talk.ticks(
        T0 + 151_010,
        "alice",
        "outgoing",
        says=[("retry", m1), ("retry", messages[1])],
        why="alice has not got that sync: 120 s after the first they are sent again",
    )
    talk.receives(T0 + 151_020, "bob", m1, why="bob has it; its sender does not know")
    answer = talk.message("bob", names[2], T0 + 158_520, history=entries, filter=ids)
    talk.ticks(
        T0 + 158_520,
        "bob",
        "sync",
        event("sync_sent", names[2], "bob"),
        says=[("sync", answer)],
        why="the answer comes within a quarter of the floor: m1, and m2 a second time, for syncs may be lost",
    )
    talk.receives(
        T0 + 158_530,
        "alice",
        answer,
        event("sync_received", names[2]),
        event("acknowledged", "m1", "alice", by="causal_history", evidence=["bob"], attempts=1),
        event("acknowledged", "m2", "alice", by="causal_history", evidence=["bob"], attempts=1),
        why="so one re-send was enough",
    )
    log = [(T0 + at, one) for at, one in enumerate(ids)]
    talk.ends("alice", lamport=T0 + 3, log=log)
    talk.ends("bob", lamport=T0 + 158_520, log=log)
    return talk
