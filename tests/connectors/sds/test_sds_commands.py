"""`culm sds join` and `send` as a user runs them: processes, what they print, exit statuses."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.sds.participants.participant import read_log
from culm_models.sds.wire.codec import decode
from culm_topics.sds.records import SdsInRecord
from tests.connectors.edge.test_edge_commands import culm, serving
from tests.support.connectors.edge import topics
from tests.support.kafka.topic_io import read_all

_SHORT_S = 60


class Chat:
    """A `culm sds join --json` process: lines in, JSON out."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "culm_infra", "sds", "join", *map(str, arguments), "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.seen: list[dict[str, Any]] = []
        """Lines that were taken from the queue."""
        self.talk: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._hear, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.talk.put(line)

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, **wanted: Any) -> dict[str, Any]:
        """The next line with these values; what comes before it is passed over."""
        while True:
            line = self.lines.get(timeout=_SHORT_S)
            if all(line.get(name) == value for name, value in wanted.items()):
                return line

    def says(self, text: str) -> None:
        """Wait for a line of talk."""
        while text not in self.talk.get(timeout=_SHORT_S):
            pass


@contextlib.contextmanager
def chat(*arguments: object, number: int = signal.SIGTERM) -> Iterator[Chat]:
    made = Chat(*arguments)
    try:
        made.says("joined at")
        yield made
    finally:
        made.process.send_signal(number)
        status = made.process.wait(_SHORT_S)
    assert status == (0 if number == signal.SIGTERM else -number)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("join", "room", "nowhere"), 2, "HOST:PORT"),
        (("join", "", "127.0.0.1:1"), 1, "channel"),
        (("join", "room", "127.0.0.1:1", "--from", "now"), 2, "full participant"),
        (("send", "room", "x", "--edge", "nowhere"), 2, "HOST:PORT"),
        (("send", "room", "x", "--edge", "127.0.0.1:1", "--wait", "--ephemeral"), 2, "ephemeral"),
        (("send", "room", "x", "--edge", "127.0.0.1:9", "--timeout", "1"), 1, "no edge"),
        (("send", "room", "x"), 2, "--edge"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = culm("sds", *arguments, "--dir", tmp_path, check=False)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_why_there_is_no_connection_is_said(tmp_path: Path) -> None:
    made = Chat("room", "127.0.0.1:9", "--dir", tmp_path)
    try:
        made.says("not connected: nothing listens on 127.0.0.1")
    finally:
        made.process.send_signal(signal.SIGTERM)
        assert made.process.wait(_SHORT_S) == 0


@pytest.mark.parametrize("command", ["join", "send"])
def test_help_shows_an_example(command: str) -> None:
    assert f"culm sds {command} general" in " ".join(culm("sds", command, "--help").stdout.split())


@pytest.mark.kafka
def test_full_participants_talk_through_a_connector(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    topics(kafka_bootstrap, topic_prefix)
    options = ("--bootstrap", kafka_bootstrap, "--prefix", topic_prefix, "--log-format", "json")
    with serving("connector", "run", *options, "--dir", tmp_path / "edge") as edge:
        at = edge["address"]
        alice = ("room", at, "--participant", "alice", "--dir", tmp_path / "a")
        bob = ("room", at, "--participant", "bob", "--dir", tmp_path / "b")
        with chat(*alice, number=signal.SIGKILL) as a, chat(*bob) as b:
            a.type("hello")
            first = b.until(kind="message", text="hello")
            assert (first["sender_id"], first["position"]) == ("alice", 0)
            b.type("hi alice")
            assert a.until(kind="message", text="hello")["state"] == "unacknowledged"
            heard = a.until(kind="message", text="hi alice")
            assert (heard["sender_id"], heard["number"]) == ("bob", 2)
            # Bob's message names the one that it answers.
            assert a.until(kind="acknowledged")["message_id"] == first["message_id"]
            a.type("/now typing")
            assert b.until(ephemeral=True)["text"] == "typing"
            a.type("//not a command")
            b.until(text="/not a command")
        with chat(*alice) as a, chat(*bob) as b:
            # What was told before the kill is shown again as what it is: of former times.
            assert [a.until(kind="message")["number"] for _ in range(3)] == [1, 2, 3]
            b.type("again")
            assert a.until(text="again")["number"] == 4
            a.type("/status")
            a.says("messages 4")
            sent = culm(
                *("sds", "send", "room", "from carol", "--full", "--edge", at, "--participant", "carol"),
                *("--dir", tmp_path / "c", "--json"),
                check=True,
            )
            assert json.loads(sent.stdout)["state"] == "sent"
            a.type("/quit")
            assert a.process.wait(_SHORT_S) == 0


@pytest.mark.kafka
def test_a_sent_message_waits_for_its_acknowledgement(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    topics(kafka_bootstrap, topic_prefix)
    options = ("--bootstrap", kafka_bootstrap, "--prefix", topic_prefix, "--log-format", "json")
    with serving("connector", "run", *options, "--dir", tmp_path / "edge") as edge:
        send = ("sds", "send", "room", "--edge", edge["address"], "--dir", tmp_path / "a")
        late = culm(*send, "hello", "--full", "--wait", "--timeout", 2, check=False)
        assert late.returncode == 3 and len(late.stdout.strip()) == 64
        with chat("room", edge["address"], "--participant", "bob", "--dir", tmp_path / "b") as bob:
            process = subprocess.Popen(
                [sys.executable, "-m", "culm_infra", *map(str, send), "more", "--full", "--wait", "--json"],
                stdout=subprocess.PIPE,
                text=True,
            )
            bob.until(text="more")
            bob.type("I hear you")
            out, _ = process.communicate(timeout=_SHORT_S)
            assert process.returncode == 0
            assert json.loads(out)["state"] == "acknowledged"
        # Nobody hosts participants here: the command is kept, and that is all.
        done = culm(*send, "kept", "--wait", "--timeout", 2, check=False)
        assert done.returncode == 3


@pytest.mark.kafka
def test_a_participant_that_is_killed_again_and_again_repeats_and_loses_nothing(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = topics(kafka_bootstrap, topic_prefix)
    options = ("--bootstrap", kafka_bootstrap, "--prefix", topic_prefix, "--log-format", "json")
    chance = random.Random(5)
    numbers: list[int] = []
    with serving("connector", "run", *options, "--dir", tmp_path / "edge") as edge:
        alice = ("room", edge["address"], "--participant", "alice", "--dir", tmp_path / "a", "--tail", 0)
        with chat("room", edge["address"], "--participant", "bob", "--dir", tmp_path / "b") as bob:
            for life in range(3):
                with chat(*alice, number=signal.SIGKILL) as a:
                    for number in range(8):
                        a.type(f"a{life}.{number}")
                        bob.type(f"b{life}.{number}")
                    with contextlib.suppress(queue.Empty):
                        for _ in range(chance.randrange(16)):
                            a.seen.append(a.lines.get(timeout=0.5))
                numbers += [line["number"] for line in [*a.seen, *a.lines.queue] if line["kind"] == "message"]
            with chat(*alice) as a:
                a.type("the end")
                bob.until(text="the end")
    assert len(numbers) == len(set(numbers))
    wires: dict[str, set[bytes]] = {}
    for _, value in read_all(settings, "sds.in"):
        record = SdsInRecord.decode(value)
        message = decode(record.wire, record.profile)
        if message.kind == "content":
            wires.setdefault(message.message_id, set()).add(record.wire)
    assert all(len(forms) == 1 for forms in wires.values())
    senders = Counter(decode(next(iter(forms)), "spec").sender_id for forms in wires.values())
    # What alice had not recorded when she was killed was never said by anyone.
    assert senders["bob"] == 24 and 1 <= senders["alice"] <= 25
    history = list(read_log(next((tmp_path / "a" / "channels").iterdir())))
    assert [logged.number for logged in history] == list(range(1, len(history) + 1))
    assert len({logged.message_id for logged in history}) == len(history)
