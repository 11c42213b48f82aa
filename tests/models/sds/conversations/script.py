"""The language of the conversations: who does what when, and everything that must follow from it.

A step says all that it causes: messages by their fields, events, and ids to fetch, in order. Nothing is
filled in from a run of the machine.
"""

from collections.abc import Iterable
from typing import Any, Final

from tests.models.sds.conversations.wires import CAPACITY, ERROR_RATE, Fields, wire_of

# All channels are opened at 999 s, a second before anything happens.
OPENED_MS: Final = 999_000
T0: Final = 1_000_000

Json = dict[str, Any]

SETTINGS: Final[Json] = {
    "bloom_capacity": CAPACITY,
    "bloom_error_rate": ERROR_RATE,
    "causal_history_size": 2,
}


def event(kind: str, message_id: str, participant_id: str | None = None, **details: Any) -> Json:
    """An event and those of its details that the conversation is about."""
    return {"kind": kind, "message_id": message_id, "participant_id": participant_id, **details}


class Script:
    """One conversation in one profile."""

    def __init__(self, name: str, profile: str, says: str, **people: Json) -> None:
        self.profile = profile
        self._steps: list[Json] = []
        self._end: Json = {}
        self._whole: Json = {
            "name": name,
            "says": says,
            "people": {who: {**SETTINGS, **changed} for who, changed in people.items()},
            "steps": self._steps,
            "end": self._end,
        }

    def lamport(self, at_ms: int, in_nim: int) -> int:
        """A Lamport timestamp: in spec and js and, by its own rules, in nim (seconds, receipts count)."""
        return in_nim if self.profile == "nim" else at_ms

    def message(
        self,
        sender: str,
        message_id: str,
        lamport: int | None,
        *,
        content: str = "",
        history: Iterable[tuple[str, ...]] = (),
        filter: Iterable[str] = (),
        repair: Iterable[tuple[str, ...]] = (),
    ) -> Fields:
        """The fields of a message; `history`, `repair`: (id, sender) or with a hint; `filter`: its ids."""
        return {
            "sender": sender,
            "id": message_id,
            "lamport": lamport,
            "history": [list(entry) for entry in history],
            "filter": list(filter),
            "repair": [list(entry) for entry in repair],
            "content": content,
        }

    def sends(
        self,
        at_ms: int,
        message: Fields,
        *events: Json,
        why: str,
        kind: str = "new",
        hosted_by: str | None = None,
        hint: str | None = None,
    ) -> None:
        """The sender of the message sends it, under this id; `hint`, in hexadecimal, is how to fetch it."""
        step: Json = {"do": "send", "content": message["content"], "message_id": message["id"]}
        if kind == "ephemeral":
            step["ephemeral"] = True
        if hint is not None:
            step["hint"] = hint
        if hosted_by is not None:
            step["as"] = message["sender"]
        self._step(at_ms, hosted_by or message["sender"], step, [(kind, message)], events, (), why)

    def refuses(self, at_ms: int, who: str, content: str, code: str, *, why: str) -> None:
        """An ephemeral message cannot be sent."""
        step = {"do": "send", "content": content, "message_id": "refused", "ephemeral": True, "error": code}
        self._step(at_ms, who, step, (), (), (), why)

    def receives(
        self,
        at_ms: int,
        who: str,
        message: Fields,
        *events: Json,
        why: str,
        fetch: Iterable[str] = (),
        hint: str | None = None,
    ) -> None:
        """`who` receives a message that was sent, or one that a machine would not send."""
        step: Json = {"do": "receive", "bytes": wire_of(message, self.profile).hex()}
        if hint is not None:
            step["hint"] = hint
        self._step(at_ms, who, step, (), events, fetch, why)

    def ticks(
        self,
        at_ms: int,
        who: str,
        only: str | None,
        *events: Json,
        why: str,
        says: Iterable[tuple[str, Fields]] = (),
        fetch: Iterable[str] = (),
    ) -> None:
        """`who` does what is due of one part: `says` are (kind, message)."""
        self._step(at_ms, who, {"do": "tick", "only": only}, says, events, fetch, why)

    def ends(
        self,
        who: str,
        *,
        lamport: int,
        log: Iterable[tuple[int, str]],
        outgoing: Iterable[tuple[str, str]] = (),
        incoming: Iterable[tuple[str, list[str]]] = (),
    ) -> None:
        """How it stands with `who` at the end: outgoing (id, state), incoming (id, missing ids)."""
        self._end[who] = {
            "lamport": lamport,
            "log": [list(entry) for entry in log],
            "outgoing": [list(entry) for entry in outgoing],
            "incoming": [list(entry) for entry in incoming],
        }

    def whole(self) -> Json:
        """The conversation as the file holds it."""
        return self._whole

    def _step(
        self,
        at_ms: int,
        who: str,
        step: Json,
        says: Iterable[tuple[str, Fields]],
        events: Iterable[Json],
        fetch: Iterable[str],
        why: str,
    ) -> None:
        self._steps.append(
            {
                "at": at_ms,
                "who": who,
                **step,
                "why": why,
                "says": [
                    {"kind": kind, "message": message, "bytes": wire_of(message, self.profile).hex()}
                    for kind, message in says
                ],
                "events": list(events),
                "fetch": list(fetch),
            }
        )
