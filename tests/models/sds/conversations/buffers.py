"""Conversations about acknowledgement, re-sends, ephemeral messages and repair."""

from tests.models.sds.conversations.script import T0, Script, event
from tests.models.sds.conversations.wires import sync_id, t_req_ms, t_resp_ms


def possible_acknowledgements(profile: str) -> Script:
    """A causal history acknowledges; two senders' distinct filters do; an equal filter does not."""
    talk = Script("possible acknowledgements", profile, "two peers show it", alice={}, bob={}, carol={})
    lamports = [talk.lamport(T0 + step, 1_000 + step) for step in range(3)]
    entries = [("m1", "alice"), ("m2", "alice"), ("m3", "alice")]
    ids = ["m1", "m2", "m3"]
    messages = [
        talk.message(
            "alice", ids[step], lamports[step], content="!", history=entries[:step][-2:], filter=ids[:step]
        )
        for step in range(3)
    ]
    for step, message in enumerate(messages):
        talk.sends(T0 + step, message, event("sent", ids[step], "alice"), why="three messages")
        for who in ("bob", "carol"):
            talk.receives(
                T0 + 10 + step,
                who,
                message,
                event("received", ids[step]),
                event("delivered", ids[step], position=step),
                why="nim stands at 1001, 1002, 1003 after each",
            )
    by_bob, by_carol = talk.lamport(T0 + 1_000, 1_004), talk.lamport(T0 + 1_500, 1_004)
    b1 = talk.message("bob", "b1", by_bob, content="b", history=entries[1:], filter=ids)
    c1 = talk.message("carol", "c1", by_carol, content="c", history=entries[1:], filter=ids)
    talk.sends(T0 + 1_000, b1, event("sent", "b1", "bob", position=3), why="names m2 and m3, shows m1")
    talk.sends(T0 + 1_500, c1, event("sent", "c1", "carol", position=3), why="carol has not got b1")
    talk.receives(
        T0 + 1_010,
        "alice",
        b1,
        event("acknowledged", "m2", "alice", by="causal_history", evidence=["bob"]),
        event("acknowledged", "m3", "alice", by="causal_history", evidence=["bob"]),
        event("possibly_acknowledged", "m1", "alice", evidence=["bob"]),
        event("received", "b1"),
        event("delivered", "b1", position=3),
        why="Review ACK Status: the history acknowledges, the filter possibly",
    )
    talk.receives(T0 + 1_020, "alice", b1, why="the same sender is evidence once")
    talk.receives(
        T0 + 1_510,
        "alice",
        c1,
        event("received", "c1"),
        event("delivered", "c1", position=4),
        why="the same filter as bob's, with the same false positives: it is no second piece of evidence",
    )
    talk.receives(
        T0 + 1_520,
        "carol",
        b1,
        event("received", "b1"),
        event("delivered", "b1", position=3),
        why="from now on carol's filter is another one",
    )
    again = talk.lamport(T0 + 1_600, 1_006)
    c2 = talk.message(
        "carol", "c2", again, content="d", history=[("b1", "bob"), ("c1", "carol")], filter=[*ids, "c1", "b1"]
    )
    talk.sends(T0 + 1_600, c2, event("sent", "c2", "carol", position=5), why="names the end of the log")
    talk.receives(
        T0 + 1_610,
        "alice",
        c2,
        event("acknowledged", "m1", "alice", by="bloom_filter", evidence=["bob", "carol"]),
        event("received", "c2"),
        event("delivered", "c2", position=5),
        why="in two distinct filters of two senders",
    )
    log = [*zip(lamports, ids, strict=True), (by_bob, "b1"), (by_carol, "c1"), (again, "c2")]
    talk.ends("alice", lamport=talk.lamport(T0 + 1_600, 1_007), log=log)
    talk.ends("bob", lamport=by_bob, log=log[:4], outgoing=[("b1", "unacknowledged")])
    return talk


def retry_and_give_up(profile: str) -> Script:
    """What nobody acknowledges is sent again, the same bytes ever later, and then given up."""
    talk = Script("retry and give up", profile, "nobody listens", alice={"resend_attempts": 2})
    first = talk.lamport(T0, 1_000)
    m1 = talk.message("alice", "m1", first, content="anyone?")
    talk.sends(T0, m1, event("sent", "m1", "alice"), why="it waits for acknowledgement from now on")
    talk.ticks(T0 + 29_999, "alice", "outgoing", why="the period of 30 s is not over")
    talk.ticks(
        T0 + 30_000, "alice", "outgoing", says=[("retry", m1)], why="Outgoing Sweep: rebroadcast as it was"
    )
    talk.ticks(T0 + 74_999, "alice", "outgoing", why="60 s less at most a quarter are not over")
    talk.ticks(T0 + 90_000, "alice", "outgoing", says=[("retry", m1)], why="60 s are over")
    talk.ticks(T0 + 179_999, "alice", "outgoing", why="120 s less at most a quarter are not over")
    talk.ticks(
        T0 + 210_000,
        "alice",
        "outgoing",
        event("gave_up", "m1", "alice", state="unacknowledged", attempts=2),
        why="two attempts were allowed",
    )
    talk.ticks(T0 + 9_000_000, "alice", "outgoing", why="it is over")
    talk.ends("alice", lamport=first, log=[(first, "m1")])
    return talk


def ephemeral(profile: str) -> Script:
    """Ephemeral messages are delivered at once and leave no trace."""
    talk = Script("ephemeral", profile, "typing …", alice={}, bob={})
    first, second = talk.lamport(T0, 1_000), talk.lamport(T0 + 1_000, 1_002)
    m1 = talk.message("alice", "m1", first, content="hello")
    talk.sends(T0, m1, event("sent", "m1", "alice"), why="one that lasts")
    if profile == "nim":
        talk.refuses(T0 + 100, "alice", "typing", "sds.kind", why="nim has no ephemeral messages")
        talk.ends("alice", lamport=first, log=[(first, "m1")], outgoing=[("m1", "unacknowledged")])
        return talk
    e1 = talk.message("alice", "e1", None, content="typing")
    talk.sends(
        T0 + 100,
        e1,
        event("sent", "e1", "alice", content="typing", lamport_timestamp=None, position=None, ephemeral=True),
        kind="ephemeral",
        why="Ephemeral Messages: Lamport timestamp, causal history and filter are unset",
    )
    talk.receives(
        T0 + 110,
        "bob",
        e1,
        event("received", "e1", sender_id="alice", message_kind="ephemeral", lamport_timestamp=None),
        event("delivered", "e1", sender_id="alice", content="typing", position=None, ephemeral=True),
        why="delivered at once, though m1 has not come",
    )
    talk.receives(
        T0 + 120, "bob", m1, event("received", "m1"), event("delivered", "m1", position=0), why="as ever"
    )
    m2 = talk.message("bob", "m2", second, content="yes?", history=[("m1", "alice")], filter=["m1"])
    talk.sends(
        T0 + 1_000, m2, event("sent", "m2", "bob", position=1), why="neither history nor filter has it"
    )
    talk.ticks(T0 + 30_000, "alice", "outgoing", says=[("retry", m1)], why="e1 is not sent again")
    talk.ends("alice", lamport=first, log=[(first, "m1")], outgoing=[("m1", "unacknowledged")])
    talk.ends("bob", lamport=second, log=[(first, "m1"), (second, "m2")], outgoing=[("m2", "unacknowledged")])
    return talk


def repair(profile: str) -> Script:
    """SDS-R: who misses a message asks for it, and who has it broadcasts it again (reference/sds.md, 3.1)."""
    t_max_ms = 300_000 if profile == "nim" else 120_000
    times = {"repair_t_min_ms": 30_000, "repair_t_max_ms": t_max_ms}
    talk = Script("repair", profile, "bob asks, carol answers", alice=times, bob=times, carol=times)
    first, second = talk.lamport(T0, 1_000), talk.lamport(T0 + 1, 1_001)
    m1 = talk.message("alice", "m1", first, content="1")
    m2 = talk.message("alice", "m2", second, content="2", history=[("m1", "alice")], filter=["m1"])
    for step, message in enumerate((m1, m2)):
        name = message["id"]
        talk.sends(T0 + step, message, event("sent", name, "alice"), why="alice goes away then")
        talk.receives(
            T0 + 10 + step,
            "carol",
            message,
            event("received", name),
            event("delivered", name, position=step),
            why="carol gets both",
        )
    talk.receives(
        T0 + 20,
        "bob",
        m2,
        event("received", "m2"),
        event("missing", "m2", entries=[["m1", "alice"]], attempt=1),
        why="bob gets the second alone",
        fetch=["m1"],
    )
    asks = T0 + 20 + t_req_ms(profile, "bob", "m1", 30_000, t_max_ms)
    asked = [("m1", "alice")]
    if profile == "nim":
        carrier, name, seconds = "b1", "b1", asks // 1_000
        request = talk.message("bob", name, seconds, content="hm", filter=["m2"], repair=asked)
        talk.sends(
            asks,
            request,
            event("sent", name, "bob", position=0),
            event("repair_requested", "m1", "bob", carrier_id=name),
            why="T_req is over: the next message asks; bob's log is empty, for m2 waits",
        )
        heard = [event("received", name), event("delivered", name, position=2)]
        log, lamport = [(first, "m1"), (second, "m2"), (seconds, "b1")], seconds + 2
        outgoing = [("b1", "unacknowledged")]
    else:
        carrier = sync_id(b"bob", "bob", 0)
        request = talk.message("bob", carrier, asks, filter=["m2"], repair=asked)
        talk.ticks(asks - 1, "bob", "repair", why="T_req is not over")
        talk.ticks(
            asks,
            "bob",
            "repair",
            event("sync_sent", carrier, "bob", lamport_timestamp=asks),
            event("repair_requested", "m1", "bob", carrier_id=carrier),
            says=[("sync", request)],
            why="T_req is over: a sync asks; bob's log is empty, for m2 waits",
        )
        heard = [event("sync_received", carrier, sender_id="bob")]
        log, lamport, outgoing = [(first, "m1"), (second, "m2")], asks, []
    talk.receives(asks + 10, "carol", request, *heard, why="carol has what is asked for")
    answers = asks + 10 + t_resp_ms(profile, "carol", "alice", "m1", t_max_ms)
    talk.ticks(answers - 1, "carol", "repair", why="T_resp is not over")
    talk.ticks(
        answers,
        "carol",
        "repair",
        event("repair_answered", "m1", "carol"),
        says=[("repair", m1)],
        why="T_resp is over: m1 again, byte for byte as alice sent it",
    )
    talk.receives(
        answers + 10,
        "bob",
        m1,
        event("received", "m1", sender_id="alice"),
        event("delivered", "m1", position=0, gap=[]),
        event("delivered", "m2", position=1, gap=[]),
        why="and what waited for it",
    )
    talk.receives(answers + 10, "alice", m1, why="an own message: ignored")
    talk.ticks(answers + 600_000, "bob", "repair", why="nothing is missing, nothing is asked for")
    talk.ends("bob", lamport=lamport, log=log, outgoing=outgoing)
    return talk
