"""A session of two ends as it went over their channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.wire.control import decode_control, decode_setup
from culm_models.conform.bamboo_p2p.codecs import decode_all_data
from culm_models.conform.bamboo_p2p.messages import SETUP, control_messages
from tests.models.bamboo_p2p.logs import LOG, Pair

ROLES = ("proactive", "reactive")


class Recording:
    """Two ends whose bytes are kept: `said` holds the turn of an end, one channel at a time."""

    def __init__(
        self,
        settings: tuple[BambooSettings, BambooSettings],
        flavour: HashFlavour,
        entries: tuple[Iterable[NewEntry], Iterable[NewEntry]],
        split: int | None = None,
    ) -> None:
        self._split = split
        self.pair = Pair(*settings, flavour=flavour)
        self.flavour = flavour
        self.settings = settings
        self.held = tuple(tuple(side_entries) for side_entries in entries)
        for peer, side_entries in zip(self.pair.peers, self.held, strict=True):
            peer.add(side_entries)
        self.said: list[dict[str, Any]] = []
        self._talk()

    def do(self, step: Callable[[Pair], None] | list[Callable[[Pair], None]]) -> None:
        """Let something happen, or several things at once, and carry what follows of it."""
        for action in step if isinstance(step, list) else [step]:
            action(self.pair)
        self._talk()

    def _talk(self) -> None:
        while any([self._carry(0), self._carry(1)]):
            pass
        assert not any(end.dropped for end in self.pair.ends)

    def _carry(self, sender: int) -> bool:
        end, other = self.pair.ends[sender], self.pair.ends[1 - sender]
        data = end.next_data()
        control = end.take_control()
        if control:
            self._put(sender, "control", control, [])
            for piece in self._pieces(control):
                other.receive_control(piece, 0)
        if data:
            expected: list[bool] = []
            receiver = other._receiver
            judge = receiver._expects_backlink

            def expects() -> bool:
                expected.append(judge())
                return expected[-1]

            receiver._expects_backlink = expects  # type: ignore[method-assign]
            # Message by message, so that each one with metadata is asked about.
            receiver._take_run = lambda request: False  # type: ignore[method-assign]
            for piece in self._pieces(data):
                other.receive_data(piece, 0)
            del receiver._expects_backlink, receiver._take_run
            self._put(sender, "data", data, [] if self._split else expected)
        for peer in self.pair.peers:
            peer.settle()
        return bool(control or data)

    def _pieces(self, data: bytes) -> list[bytes]:
        size = self._split or len(data)
        return [data[at : at + size] for at in range(0, len(data), size)]

    def _put(self, sender: int, channel: str, data: bytes, expected: list[bool]) -> None:
        shown: dict[str, Any] = {"from": ROLES[sender], "channel": channel, "bytes": data.hex()}
        if channel == "data":
            if self._split is None:
                shown["messages"] = decode_all_data(data, self.flavour, expected)["messages"]
            if True in expected:
                shown["backlink_expected"] = expected
        else:
            at = 0
            if not any(sent["from"] == ROLES[sender] for sent in self.said):
                decoded = decode_setup(data)
                assert decoded is not None
                at = shown["setup_bytes"] = decoded[1]
            shown["messages"] = []
            while (message := decode_control(data, at, self.flavour)) is not None:
                shown["messages"].append(control_messages(self.flavour).show(message[0]))
                at = message[1]
        self.said.append(shown)

    def to_json(self) -> dict[str, Any]:
        """The session for others to replay."""
        return {
            "hash": self.flavour.name,
            "ends": [
                {
                    "role": role,
                    "settings": SETUP.show(settings.setup),
                    "holds": [self._given(entry) for entry in entries],
                    "holds_then": self._holds(index),
                }
                for index, (role, settings, entries) in enumerate(
                    zip(ROLES, self.settings, self.held, strict=True)
                )
            ],
            "said": self.said,
        }

    def _given(self, entry: NewEntry) -> dict[str, Any]:
        return {
            "entry": entry.entry_bytes.hex(),
            **({"payload": entry.payload.hex()} if entry.payload is not None else {}),
            **(
                {"parts": [{"offset": at, "bytes": data.hex()} for at, data in entry.parts]}
                if entry.parts
                else {}
            ),
        }

    def _holds(self, index: int) -> list[dict[str, Any]]:
        store = self.pair.store(index)
        numbers = store.entries(LOG)
        return [
            {"seq_num": seq_num, "payload": store.has_payload(LOG, seq_num)}
            for seq_num in numbers
            if (stored := store.entry(LOG, seq_num)) and decode_entry(stored.entry_bytes, self.flavour)
        ]
