"""Validates that the UCANs of a folder authorise a publish (reference 4.5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import ERROR_OF_CODE, ChainMixed, DagError, UcanProofMissing
from culm_models.dag.exchange.needs import read_block
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.ucan.chain import ChainRefusal, Published, authorise
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.signing import verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import ValidationRules


class ProofJudge:
    """Validates publishes by the contents of a database."""

    def __init__(self, database: sqlite3.Connection, settings: ValidationRules) -> None:
        self._database = database
        self._settings = settings
        self._policy = settings.chain_policy

    def judge(
        self, node: ReplicaNode, received_at: int, revoked: frozenset[Cid] = frozenset()
    ) -> ChainRefusal | None:
        """Return why a publish, received at this time, is not authorised; None if it is."""
        change = node.change
        assert isinstance(change, PublishChange), "only publishes are validated"
        fields = {"link": change.link, "origin": change.origin}
        fields |= {} if node.prior is None else {"prior": node.prior}
        fields |= {} if change.shard is None else {"shard": change.shard}
        try:
            verify_signature(change.proof)
        except DagError as error:
            return ChainRefusal(error, frozenset())
        published = Published(did_key(change.id), fields)
        return authorise(
            change.proof, published, self._ucan, received_at, policy=self._policy, revoked=revoked
        )

    def at_receipts(
        self, node: ReplicaNode, row: int, revoked: frozenset[Cid] = frozenset()
    ) -> Iterator[tuple[int, ChainRefusal | None]]:
        """Yield each receipt of a publish, ascending, and why the publish is not authorised at that time."""
        for time in self.receipts(row):
            yield time, self.judge(node, time, revoked)

    def receipts(self, row: int) -> list[int]:
        """Return the times of receipt of a publish, ascending."""
        query = "SELECT received_at FROM receipts WHERE node = ? ORDER BY received_at"
        return [time for (time,) in self._database.execute(query, (row,))]

    def valid_receipts(self, cid: Cid) -> list[int]:
        """Return the receipts that are not refused for their time, ascending.

        A receipt that was refused for its time when it came is not kept either.
        """
        query = "SELECT node, block FROM nodes JOIN publishes USING (node) WHERE cid = ?"
        publish = self._database.execute(query, (cid.raw,)).fetchone()
        if publish is None:
            return []
        node = decode_node(publish[1], legacy=self._settings.legacy, bounds=self._settings.bounds)
        return [
            time
            for time, refusal in self.at_receipts(node, publish[0])
            if refusal is None or isinstance(refusal.error, UcanProofMissing)
        ]

    def _ucan(self, cid: Cid) -> Ucan | DagError | None:
        if code := self.refused_with(cid):
            return ERROR_OF_CODE[code](f"{cid} was refused")
        row = self._database.execute("SELECT block FROM nodes WHERE cid = ?", (cid.raw,)).fetchone()
        if row is None:
            return None
        decoded = read_block(cid, row[0], legacy=self._settings.legacy, bounds=self._settings.bounds)
        return decoded if isinstance(decoded, Ucan) else ChainMixed("a node instead of a proof")

    def refused_with(self, cid: Cid) -> str | None:
        """Return the code with which a block was finally refused, or None."""
        row = self._database.execute("SELECT code FROM refused WHERE cid = ?", (cid.raw,)).fetchone()
        return None if row is None else str(row[0])
