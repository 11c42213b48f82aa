"""Conversations about the order of delivery (sds.md: Receive, Deliver, Resolve Conflicts, Incoming Sweep)."""

from tests.models.sds.conversations.script import T0, Script, event
from tests.models.sds.conversations.wires import sync_id


def plain(profile: str) -> Script:
    """Two say something, and each knows that the other has heard."""
    talk = Script("plain", profile, "two participants, nothing is lost", alice={}, bob={})
    first = talk.lamport(T0, 1_000)
    m1 = talk.message("alice", "m1", first, content="hello")
    talk.sends(
        T0,
        m1,
        event("sent", "m1", "alice", content="hello", lamport_timestamp=first, position=0, ephemeral=False),
        why="Send: Lamport max(now, own + 1), an empty log and filter",
    )
    talk.receives(
        T0 + 10,
        "bob",
        m1,
        event("received", "m1", sender_id="alice", message_kind="content", lamport_timestamp=first),
        event("delivered", "m1", sender_id="alice", content="hello", lamport_timestamp=first, position=0),
        why="Receive: no dependencies, so it is delivered; nim stands at max(999, 1000) + 1 then",
    )
    second = talk.lamport(T0 + 1_000, 1_002)
    m2 = talk.message("bob", "m2", second, content="hello alice", history=[("m1", "alice")], filter=["m1"])
    talk.sends(
        T0 + 1_000,
        m2,
        event("sent", "m2", "bob", lamport_timestamp=second, position=1),
        why="its causal history and its filter hold what bob has",
    )
    talk.receives(
        T0 + 1_010,
        "alice",
        m2,
        event("acknowledged", "m1", "alice", by="causal_history", evidence=["bob"], attempts=0),
        event("received", "m2", sender_id="bob"),
        event("delivered", "m2", sender_id="bob", lamport_timestamp=second, position=1, gap=[]),
        why="Review ACK Status: what a causal history names is acknowledged",
    )
    both = [("m1", "alice"), ("m2", "bob")]
    log = [(first, "m1"), (second, "m2")]
    if profile == "nim":
        m3 = talk.message("alice", "m3", 1_031, content="!", history=both, filter=["m1", "m2"])
        talk.sends(T0 + 31_010, m3, event("sent", "m3", "alice", position=2), why="nim has no syncs")
        talk.receives(
            T0 + 31_020,
            "bob",
            m3,
            event("acknowledged", "m2", "bob", by="causal_history", evidence=["alice"]),
            event("received", "m3"),
            event("delivered", "m3", position=2),
            why="so the next message acknowledges",
        )
        log.append((1_031, "m3"))
        talk.ends("alice", lamport=1_031, log=log, outgoing=[("m3", "unacknowledged")])
        talk.ends("bob", lamport=1_032, log=log)
        return talk
    talk.ticks(T0 + 16_009, "alice", "sync", why="half of the shortest wait (30 s) is not over yet")
    when = T0 + 31_010
    name = sync_id(b"alice", "alice", 0)
    sync = talk.message("alice", name, when, history=both, filter=["m1", "m2"])
    talk.ticks(
        when,
        "alice",
        "sync",
        event("sync_sent", name, "alice", lamport_timestamp=when),
        says=[("sync", sync)],
        why="half of the longest wait (60 s) is over: m2 is acknowledged by a sync",
    )
    talk.receives(
        when + 10,
        "bob",
        sync,
        event("sync_received", name, sender_id="alice", lamport_timestamp=when),
        event("acknowledged", "m2", "bob", by="causal_history", evidence=["alice"]),
        why="a sync is reviewed like a message and stored nowhere; it does not move the Lamport timestamp",
    )
    talk.ends("alice", lamport=when, log=log)
    talk.ends("bob", lamport=second, log=log)
    return talk


def loss_and_cascade(profile: str) -> Script:
    """What depends on lost messages waits; when they come, all is delivered in causal order at once."""
    talk = Script("loss and cascade", profile, "the last of three comes first", alice={}, bob={})
    lamports = [talk.lamport(T0 + step, 1_000 + step) for step in range(3)]
    entries = [("m1", "alice"), ("m2", "alice")]
    m1 = talk.message("alice", "m1", lamports[0], content="1")
    m2 = talk.message("alice", "m2", lamports[1], content="2", history=entries[:1], filter=["m1"])
    m3 = talk.message("alice", "m3", lamports[2], content="3", history=entries, filter=["m1", "m2"])
    for step, message in enumerate((m1, m2, m3)):
        talk.sends(
            T0 + step,
            message,
            event("sent", message["id"], "alice", position=step),
            why="a causal history names the two messages before",
        )
    talk.receives(
        T0 + 20,
        "bob",
        m3,
        event("received", "m3"),
        event("missing", "m3", entries=[["m1", "alice"], ["m2", "alice"]], attempt=1),
        why="unmet dependencies: it waits, and what is missing is fetched",
        fetch=["m1", "m2"],
    )
    talk.receives(
        T0 + 30,
        "bob",
        m1,
        event("received", "m1"),
        event("delivered", "m1", position=0),
        why="m3 still waits for m2",
    )
    talk.receives(
        T0 + 40,
        "bob",
        m2,
        event("received", "m2"),
        event("delivered", "m2", position=1, gap=[]),
        event("delivered", "m3", position=2, gap=[]),
        why="parents before children, in one step",
    )
    talk.receives(T0 + 50, "bob", m3, why="a message is delivered once")
    log = [(lamport, f"m{step}") for step, lamport in enumerate(lamports, 1)]
    waiting = [(f"m{step}", "unacknowledged") for step in (1, 2, 3)]
    talk.ends("alice", lamport=lamports[2], log=log, outgoing=waiting)
    talk.ends("bob", lamport=talk.lamport(T0 + 2, 1_003), log=log)
    return talk


def conflict_order(profile: str) -> Script:
    """Of equal Lamport timestamps the lower id comes first, whichever came first."""
    talk = Script("conflict order", profile, "two send at the same time", alice={}, bob={})
    tie = talk.lamport(T0, 1_000)
    beta = talk.message("alice", "beta", tie, content="b")
    alpha = talk.message("bob", "alpha", tie, content="a")
    talk.sends(T0, beta, event("sent", "beta", "alice", position=0), why="alone in its sender's log")
    talk.sends(T0, alpha, event("sent", "alpha", "bob", position=0), why="alone in its sender's log")
    talk.receives(
        T0 + 10,
        "alice",
        alpha,
        event("received", "alpha"),
        event("delivered", "alpha", position=0),
        why="Resolve Conflicts: ascending ids, so it goes before beta; its empty filter is no evidence",
    )
    talk.receives(
        T0 + 10,
        "bob",
        beta,
        event("received", "beta"),
        event("delivered", "beta", position=1),
        why="the same order at bob",
    )
    last = talk.lamport(T0 + 1_000, 1_002)
    gamma = talk.message(
        "bob",
        "gamma",
        last,
        content="c",
        history=[("alpha", "bob"), ("beta", "alice")],
        filter=["alpha", "beta"],
    )
    talk.sends(
        T0 + 1_000,
        gamma,
        event("sent", "gamma", "bob", position=2),
        why="the causal history is in the order of the log",
    )
    talk.receives(
        T0 + 1_010,
        "alice",
        gamma,
        event("acknowledged", "beta", "alice", by="causal_history"),
        event("received", "gamma"),
        event("delivered", "gamma", position=2),
        why="all that it depends on is there",
    )
    log = [(tie, "alpha"), (tie, "beta"), (last, "gamma")]
    talk.ends("alice", lamport=talk.lamport(T0 + 1_000, 1_003), log=log)
    talk.ends(
        "bob",
        lamport=last,
        log=log,
        outgoing=[("alpha", "unacknowledged"), ("gamma", "unacknowledged")],
    )
    return talk


def lost_then_late(profile: str) -> Script:
    """After a time what is missing is lost, and what waits goes on; a late copy is taken all the same."""
    patience = {"lost_timeout_ms": 60_000, "fetch_retry_ms": 100_000}
    talk = Script("lost, then late", profile, "a message comes after it was given up", alice={}, bob=patience)
    first, second = talk.lamport(T0, 1_000), talk.lamport(T0 + 1, 1_001)
    m1 = talk.message("alice", "m1", first, content="1")
    m2 = talk.message("alice", "m2", second, content="2", history=[("m1", "alice")], filter=["m1"])
    talk.sends(T0, m1, event("sent", "m1", "alice"), why="bob does not get this one")
    talk.sends(T0 + 1, m2, event("sent", "m2", "alice"), why="but the next")
    talk.receives(
        T0 + 20,
        "bob",
        m2,
        event("received", "m2"),
        event("missing", "m2", entries=[["m1", "alice"]], attempt=1),
        why="it waits",
        fetch=["m1"],
    )
    talk.ticks(T0 + 60_019, "bob", "incoming", why="its time is not over")
    talk.ticks(
        T0 + 60_020,
        "bob",
        "incoming",
        event("lost", "m1", waiting=["m2"]),
        event("delivered", "m2", position=0, gap=["m1"]),
        why="Incoming Sweep: irretrievably lost; what waited is delivered and says what it lacks",
    )
    talk.receives(
        T0 + 70_000,
        "bob",
        m1,
        event("received", "m1"),
        event("delivered", "m1", position=0, gap=[]),
        why="it goes where it belongs, before m2",
    )
    talk.receives(T0 + 70_010, "bob", m2, why="what was delivered with a gap is not delivered again")
    talk.ticks(T0 + 500_000, "bob", "incoming", why="nothing is missing any more")
    talk.ends("bob", lamport=talk.lamport(T0 + 1, 1_003), log=[(first, "m1"), (second, "m2")])
    return talk


def quarantine(profile: str) -> Script:
    """A Lamport timestamp far ahead of the time moves nobody's before its time has come."""
    talk = Script("quarantine", profile, "a participant whose clock is two hours fast", bob={})
    ahead = talk.lamport(T0 + 7_200_000, 8_200)
    x1 = talk.message("eve", "x1", ahead, content="from the future")
    never = talk.message("eve", "x2", 1 << 62, content="from nowhere")
    talk.receives(
        T0,
        "bob",
        x1,
        event("rejected", "x1", code="sds.lamport.ahead", sender_id="eve"),
        why="more than an hour ahead: kept aside",
    )
    talk.receives(
        T0, "bob", never, event("rejected", "x2", code="sds.lamport.ahead"), why="too far ever to be taken"
    )
    taken = T0 + 7_200_000 - 3_600_000
    talk.ticks(taken - 1, "bob", "incoming", why="still more than an hour ahead")
    talk.ticks(
        taken,
        "bob",
        "incoming",
        event("received", "x1", lamport_timestamp=ahead),
        event("delivered", "x1", lamport_timestamp=ahead, position=0),
        why="not any more",
    )
    later = talk.lamport(T0 + 7_200_001, 8_202)
    m1 = talk.message("bob", "m1", later, content="now", history=[("x1", "eve")], filter=["x1"])
    talk.sends(
        taken + 100,
        m1,
        event("sent", "m1", "bob", position=1),
        why="own + 1 is above now; nim stands at max(999, 8200) + 1",
    )
    talk.ends("bob", lamport=later, log=[(ahead, "x1"), (later, "m1")], outgoing=[("m1", "unacknowledged")])
    return talk
