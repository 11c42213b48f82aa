"""Validates that the UCANs of a folder authorise a publish (reference 4.5)."""

from __future__ import annotations

import sqlite3

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import ERROR_OF_CODE, ChainMixed, DagError
from culm_models.dag.exchange.needs import read_block
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.ucan.chain import ChainRefusal, Published, authorise
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.signing import verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.verdict import VerdictSettings


class ProofJudge:
    """Validates publishes by the contents of a database."""

    def __init__(self, database: sqlite3.Connection, settings: VerdictSettings) -> None:
        self._database = database
        self._settings = settings
        self._policy = settings.chain_policy

    def judge(
        self, node: ReplicaNode, received_at: int, revoked: frozenset[Cid] = frozenset()
    ) -> ChainRefusal | None:
        """Return why a publish, received at this time, is not authorised; None if it is."""
        change = node.change
        assert isinstance(change, PublishChange), "only publishes are judged"
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

    def _ucan(self, cid: Cid) -> Ucan | DagError | None:
        if code := self.refused_with(cid):
            return ERROR_OF_CODE[code](f"{cid} was refused")
        row = self._database.execute("SELECT block FROM nodes WHERE cid = ?", (cid.raw,)).fetchone()
        if row is None:
            return None
        found = read_block(cid, row[0], legacy=self._settings.legacy, bounds=self._settings.bounds)
        return found if isinstance(found, Ucan) else ChainMixed("a node, where a proof is named")

    def refused_with(self, cid: Cid) -> str | None:
        """Return the code with which a block was finally refused, or None."""
        row = self._database.execute("SELECT code FROM refused WHERE cid = ?", (cid.raw,)).fetchone()
        return None if row is None else str(row[0])
