"""Peers, links and everything that can go wrong with them, drawn action by action from one seed."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from culm_models.p2panda.checks import CheckedEntry
from culm_models.p2panda.ingest import LogBusyError
from culm_models.testing.checker import InvariantError
from culm_models.testing.liar import Liar
from culm_models.testing.link import MemoryLink
from culm_models.testing.node import Node
from culm_models.testing.scenario import SCHEMAS, draw_settings, forked, written

_TRACE_LENGTH: Final = 40


@dataclass(slots=True)
class Log:
    """A log that is being written at one node, `height` entries of `entries` so far."""

    home: Node
    entries: tuple[CheckedEntry, ...]
    height: int = 0


@dataclass(slots=True)
class Turmoil:
    """The peers of one run. `now` is in milliseconds; `trace` holds the last actions."""

    seed: int
    actions: int = 150
    now: int = 1_700_000_000_000
    nodes: dict[bytes, Node] = field(default_factory=dict)
    links: list[MemoryLink] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    liars: dict[bytes, Liar] = field(default_factory=dict)
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=_TRACE_LENGTH))
    is_calm: bool = False
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        for number, settings in enumerate(draw_settings(rng, rng.randint(2, 5))):
            peer_id = bytes((rng.randrange(256), number)) * 16
            self.nodes[peer_id] = Node(peer_id, settings, in_steps=rng.random() < 0.8)
        ids = list(self.nodes)
        for number, peer_id in enumerate(ids[1:], 1):
            self._add_link(peer_id, rng.choice(ids[:number]))
        for _ in range(rng.randrange(3)):
            one, other = rng.sample(ids, 2)
            if not any(set(link.ends) == {one, other} for link in self.links):
                self._add_link(one, other)
        for entries in rng.sample(written(), rng.randint(2, 6)):
            self.logs.append(Log(self.nodes[rng.choice(ids)], entries))
        if rng.random() < 0.3:
            self._add_liar()
        for node in self.nodes.values():
            node.interests = SCHEMAS
            node.start(self.now)

    def _add_link(self, one: bytes, other: bytes) -> None:
        self.links.append(MemoryLink(*self.rng.sample((one, other), 2)))

    def _add_liar(self) -> None:
        peer_id = bytes((self.rng.randrange(256), 255)) * 16
        known = [checked for entries in written() for checked in entries[:3]]
        self.liars[peer_id] = Liar(self.rng, SCHEMAS, [*forked(), *known])
        for victim in self.rng.sample(list(self.nodes), min(2, len(self.nodes))):
            self._add_link(peer_id, victim)

    def act(self) -> None:
        """Draw one action and do it."""
        names = tuple(_ACTIONS)
        weights = [weight for weight, _ in _ACTIONS.values()]
        name = self.rng.choices(names, weights)[0]
        self.now += self.rng.choice((0, 1, 20))
        self.trace.append(name)
        _ACTIONS[name][1](self)

    def _any_node(self) -> Node:
        return self.rng.choice(list(self.nodes.values()))

    def _some_link(self, *, up: bool) -> MemoryLink | None:
        fitting = [link for link in self.links if link.is_up is up]
        return self.rng.choice(fitting) if fitting else None

    def write(self) -> None:
        """An author writes its next entry."""
        log = self.rng.choice(self.logs)
        if log.height < len(log.entries):
            checked = log.entries[log.height]
            try:
                log.home.peer.publish(checked.entry_bytes, checked.operation_bytes, self.now)
            except LogBusyError:
                # The liar knew this log, and what it brought of it is not stored yet.
                return
            log.height += 1

    def connect(self) -> None:
        """A link comes up."""
        link = self._some_link(up=False)
        if link is not None:
            self.bring_up(link)

    def bring_up(self, link: MemoryLink) -> None:
        """A link comes up at both ends."""
        link.connect()
        for end in link.ends:
            if end in self.nodes:
                dialled = end == link.dialler
                self.nodes[end].peer.connect(link.other_end(end), self.now, dialled=dialled)
            else:
                self.liars[end].connected()

    def cut(self) -> None:
        """A link breaks."""
        link = self._some_link(up=True)
        if link is not None:
            self.break_off(link)

    def break_off(self, link: MemoryLink) -> None:
        """A link breaks, and what is under way is lost."""
        link.cut()
        for end in link.ends:
            if end in self.nodes:
                self.nodes[end].peer.disconnect(link.other_end(end), self.now)
                self.nodes[end].failed_links.discard(link.other_end(end))

    def carry(self) -> None:
        """A few messages enter a link and a few bytes leave it."""
        link = self._some_link(up=True)
        if link is not None:
            self.fill(link, self.rng.choice((1, 2, 50)))
            end = self.rng.choice(link.ends)
            self.deliver(link, end, self.rng.choice((1, 7, 100, 300, 5_000)))

    def fill(self, link: MemoryLink, max_items: int) -> None:
        """So many messages of each end enter a link."""
        for end in link.ends:
            pipe = link.towards(link.other_end(end))
            if end in self.liars:
                pipe.write(b"".join(self.liars[end].say() for _ in range(self.rng.randint(1, 12))))
            else:
                pipe.write(self.nodes[end].take_outgoing(link.other_end(end), max_items))

    def deliver(self, link: MemoryLink, end: bytes, max_bytes: int) -> None:
        """So many bytes reach an end of a link."""
        data = link.towards(end).read(max_bytes)
        if data and end in self.nodes:
            node = self.nodes[end]
            node.receive(link.other_end(end), data, self.now)
            if link.other_end(end) in node.failed_links:
                if link.other_end(end) in self.nodes:
                    raise InvariantError(f"{node} could not read what {link.other_end(end).hex()[:4]} sent")
                self.break_off(link)

    def store(self) -> None:
        """Some staged entries become durable."""
        self._any_node().store_staged(self.rng.choice((1, 3, 100)), self.now)

    def fail_to_store(self) -> None:
        """Storing fails."""
        self._any_node().fail_to_store(self.rng, self.now)

    def crash(self) -> None:
        """A peer stops without warning and starts again from its store."""
        node = self._any_node()
        for link in self.links:
            if link.is_up and node.peer_id in link.ends:
                self.break_off(link)
        node.start(self.now)

    def pass_time(self) -> None:
        """Some time passes."""
        self.now += self.rng.choice((100, 1_000, 6_000, 30_000))
        for node in self.nodes.values():
            node.peer.tick(self.now)

    def announce(self) -> None:
        """A peer changes its interests."""
        self._any_node().announce(self.rng.sample(SCHEMAS, self.rng.randint(0, len(SCHEMAS))), self.now)

    def sync(self) -> None:
        """Either side of a link begins a session."""
        link = self._some_link(up=True)
        if link is not None:
            for end in self.rng.sample(link.ends, self.rng.randint(1, 2)):
                if end in self.nodes:
                    wanted = self.rng.sample(SCHEMAS, self.rng.randint(1, len(SCHEMAS)))
                    mode = self.rng.choice((0, 1))
                    self.nodes[end].peer.sync(link.other_end(end), mode, wanted, self.now)

    def stop_live(self) -> None:
        """A peer leaves live mode."""
        node = self._any_node()
        for remote in node.peer.remotes:
            for session in node.peer.sessions(remote):
                node.peer.stop_live(remote, session.session_id, self.now)


_ACTIONS: Final[dict[str, tuple[int, Callable[[Turmoil], None]]]] = {
    "write": (20, Turmoil.write),
    "carry": (90, Turmoil.carry),
    "store": (25, Turmoil.store),
    "connect": (12, Turmoil.connect),
    "cut": (3, Turmoil.cut),
    "fail to store": (1, Turmoil.fail_to_store),
    "crash": (1, Turmoil.crash),
    "pass time": (3, Turmoil.pass_time),
    "announce": (2, Turmoil.announce),
    "sync": (4, Turmoil.sync),
    "stop live": (1, Turmoil.stop_live),
}
