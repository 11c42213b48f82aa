"""Peers, liars, and the links between them, which come up, carry a few bytes and break."""

import random

from culm_models.testing.errors import InvariantError
from culm_models.testing.memory_link import MemoryLink
from culm_models.testing.p2panda.liar import Liar
from culm_models.testing.p2panda.node import Node
from culm_models.testing.p2panda.scenario import SCHEMAS, draw_settings, forked, written


class Network:
    """All nodes of one run, joined by links that are down at first."""

    def __init__(self, rng: random.Random) -> None:
        self.nodes: dict[bytes, Node] = {}
        self.liars: dict[bytes, Liar] = {}
        self.links: list[MemoryLink] = []
        self._rng = rng
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

    def _add_link(self, one: bytes, other: bytes) -> None:
        self.links.append(MemoryLink(*self._rng.sample((one, other), 2)))

    def add_liar(self) -> None:
        """A liar is linked to some of the nodes."""
        peer_id = bytes((self._rng.randrange(256), 255)) * 16
        known = [checked for entries in written() for checked in entries[:3]]
        self.liars[peer_id] = Liar(self._rng, SCHEMAS, [*forked(), *known])
        for victim in self._rng.sample(list(self.nodes), min(2, len(self.nodes))):
            self._add_link(peer_id, victim)

    def drop_liars(self, now: int) -> None:
        """The liars are gone, and their links with them."""
        for link in self.links:
            if link.is_up and not self.liars.keys().isdisjoint(link.ends):
                self.break_off(link, now)
        self.links = [link for link in self.links if self.liars.keys().isdisjoint(link.ends)]
        self.liars.clear()

    def bring_up(self, link: MemoryLink, now: int) -> None:
        """A link comes up at both ends."""
        link.connect()
        for end in link.ends:
            if end in self.nodes:
                dialled = end == link.dialler
                self.nodes[end].peer.connect(link.other_end(end), now, dialled=dialled)
            else:
                self.liars[end].connected()

    def break_off(self, link: MemoryLink, now: int) -> None:
        """A link breaks, and what is under way is lost."""
        link.cut()
        for end in link.ends:
            if end in self.nodes:
                self.nodes[end].peer.disconnect(link.other_end(end), now)
                self.nodes[end].failed_links.discard(link.other_end(end))

    def fill(self, link: MemoryLink, max_items: int) -> None:
        """So many messages of each end enter a link."""
        for end in link.ends:
            pipe = link.towards(link.other_end(end))
            if end in self.liars:
                pipe.write(b"".join(self.liars[end].say() for _ in range(self._rng.randint(1, 12))))
            else:
                pipe.write(self.nodes[end].take_outgoing(link.other_end(end), max_items))

    def deliver(self, link: MemoryLink, end: bytes, max_bytes: int, now: int) -> None:
        """So many bytes reach an end of a link."""
        data = link.towards(end).read(max_bytes)
        if data and end in self.nodes:
            node = self.nodes[end]
            node.receive(link.other_end(end), data, now)
            if link.other_end(end) in node.failed_links:
                if link.other_end(end) in self.nodes:
                    raise InvariantError(f"{node} could not read what {link.other_end(end).hex()[:4]} sent")
                self.break_off(link, now)
