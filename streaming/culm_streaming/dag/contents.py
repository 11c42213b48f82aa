"""What is read of a block before the shuffle, and what becomes of it behind it.

Decoding, canonical form, fields and signatures are functions of a block alone, and take nearly all of the
time: they are found out by as many tasks as there are partitions, and never again. What travels, and is kept,
is a short list: what a node names, or the claims of a UCAN that decide; or the code by which it was refused.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from culm_models.dag.blocks.cid import RAW, Cid, cid_from_bytes, common_cid
from culm_models.dag.blocks.common_nodes import common_append
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.errors import ERROR_OF_CODE, DagError, UcanSignature
from culm_models.dag.publish.authority import is_authorised_alone
from culm_models.dag.replica.codec import decode_node
from culm_models.dag.replica.node import AppendChange, Change, JoinChange, PublishChange, ReplicaNode
from culm_models.dag.ucan.claims import REVOKE, revoked_by
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.forms import ucan_from_block, ucan_from_raw
from culm_models.dag.ucan.signing import verify_signature
from culm_models.dag.ucan.token import Capability, Claims, Ucan
from culm_models.dag.verdict import VerdictSettings
from culm_streaming.dag.rows import Content

APPEND, JOIN, PUBLISH, UCAN, REFUSED_NODE, REFUSED_UCAN = range(6)
_VERIFIED_MOST: Final = 65_536


class VerifiedUcans:
    """CIDs of UCANs whose signatures were verified, the last ones: delegations come again and again."""

    def __init__(self, most: int = _VERIFIED_MOST) -> None:
        self._most = most
        self._cids: OrderedDict[bytes, None] = OrderedDict()

    def is_signed(self, ucan: Ucan) -> bool:
        """Whether the issuer signed."""
        raw = ucan.cid.raw
        if raw in self._cids:
            self._cids.move_to_end(raw)
            return True
        try:
            verify_signature(ucan)
        except UcanSignature:
            return False
        self._cids[raw] = None
        if len(self._cids) > self._most:
            self._cids.popitem(last=False)
        return True


def common_content(data: bytes, settings: VerdictSettings) -> Content | None:
    """What an append says that is known at sight; None says nothing. As `read_content`, for less."""
    bounds = settings.bounds
    found = common_append(data) if len(data) <= bounds.node else None
    if found is None or len(found[1]) > bounds.shards:
        return None
    return APPEND, *found


def read_content(
    cid: Cid, data: bytes, settings: VerdictSettings, verified: VerifiedUcans, received: int = 0
) -> Content:
    """What a block of `dag.nodes` or `dag.publishes` says, whose hash was checked; refusals are content.

    `received`: of a publish, when it was (seconds).
    """
    is_node = False
    try:
        if cid.codec != RAW:
            try:
                node = decode_node(data, legacy=settings.legacy, bounds=settings.bounds)
            except DagError:
                if is_node := _has_change(data):
                    raise
            else:
                return _of_node(node, settings, verified, received)
        read = ucan_from_raw if cid.codec == RAW else ucan_from_block
        ucan = read(data, legacy=settings.legacy, bounds=settings.bounds)
        if not verified.is_signed(ucan):
            raise UcanSignature("the issuer did not sign this")
        return UCAN, _of_claims(ucan.claims, ())
    except DagError as error:
        return REFUSED_NODE if is_node else REFUSED_UCAN, error.code, str(error)


def _has_change(data: bytes) -> bool:
    """Whether a block is a node, though a broken one: what is left may pose as a proof."""
    try:
        value = decode_dag_cbor(data)
    except DagError:
        return False
    return isinstance(value, dict) and "change" in value


def published_id(data: bytes) -> object:
    """The id of a publish, whatever it is; None where the bytes are something else."""
    try:
        value = decode_dag_cbor(data)
    except DagError:
        return None
    change = value.get("change") if isinstance(value, dict) else None
    is_publish = isinstance(change, dict) and change.get("type") == "publish"
    return change.get("id", b"") if is_publish and isinstance(change, dict) else None


def _of_node(node: ReplicaNode, settings: VerdictSettings, verified: VerifiedUcans, received: int) -> Content:
    change = node.change
    prior = None if node.prior is None else node.prior.raw
    if isinstance(change, AppendChange):
        return APPEND, prior, [one.raw for one in change.shards]
    if isinstance(change, JoinChange):
        return JOIN, prior, [one.raw for one in change.forks]
    leaf = change.proof
    # Whoever has a wrong signature is refused when he is admitted: other rules stand before it.
    is_signed = verified.is_signed(leaf)
    is_good = is_signed and is_authorised_alone(node.prior, change, received, settings)
    claims = leaf.claims
    revoked = revoked_by(claims) if claims.facts and claims.issuer == did_key(change.id) else ()
    shard = None if change.shard is None else change.shard.raw
    named = (change.id, change.link.raw, change.origin.raw, shard)
    return PUBLISH, prior, named, leaf.cid.raw, _of_claims(claims, revoked), is_signed, is_good


def _of_claims(claims: Claims, revoked: Iterable[Cid]) -> Sequence[Any]:
    """What of claims decides: of what a capability names, links; of facts, what the id itself revokes."""
    return (
        claims.version,
        claims.issuer,
        claims.audience,
        [
            (one.can, one.resource, None if one.nb is None else [(n, _raw(v)) for n, v in one.nb.items()])
            for one in claims.capabilities
        ],
        claims.expires,
        claims.not_before,
        [one.raw for one in claims.proofs],
        [one.raw for one in revoked],
    )


def _raw(value: Any) -> bytes | None:
    return value.raw if isinstance(value, Cid) else None


def cid_of_raw(raw: bytes) -> Cid:
    """The CID that bytes are, which were one before."""
    return common_cid(raw) or cid_from_bytes(raw)


def node_of(cid: Cid, content: Content) -> ReplicaNode:
    """The node that was read, without its bytes. Raises why it was refused."""
    kind = content[0]
    if kind in (REFUSED_NODE, REFUSED_UCAN):
        raise _error(content)
    prior = None if content[1] is None else cid_of_raw(content[1])
    change: Change
    if kind == APPEND:
        change = AppendChange(tuple(map(cid_of_raw, content[2])))
    elif kind == JOIN:
        change = JoinChange(tuple(map(cid_of_raw, content[2])))
    else:
        assert kind == PUBLISH
        id, link, origin, shard = content[2]
        shard = None if shard is None else cid_of_raw(shard)
        leaf = _ucan(cid_of_raw(content[3]), content[4])
        change = PublishChange(id, cid_of_raw(link), cid_of_raw(origin), shard, leaf)
    return ReplicaNode(cid, prior, change, b"")


def is_verified(content: Content) -> bool:
    """Of a node that was read: whether its proof, if it has one, is signed."""
    return content[0] != PUBLISH or bool(content[5])


def is_authorised(content: Content) -> bool:
    """Of a node that was read: whether its proof authorises it alone, at the receipt beside it."""
    return content[0] == PUBLISH and bool(content[6])


def ucan_of(cid: Cid, content: Content) -> Ucan | DagError:
    """The UCAN that was read, without its bytes, or why it was refused."""
    return _error(content) if content[0] == REFUSED_UCAN else _ucan(cid, content[1])


def _ucan(cid: Cid, row: Sequence[Any]) -> Ucan:
    version, issuer, audience, capabilities, expires, not_before, proofs, revoked = row
    facts = ({REVOKE: list(map(cid_of_raw, revoked))},) if revoked else ()
    claims = Claims(
        version,
        issuer,
        audience,
        tuple(Capability(can, resource, _nb(nb)) for can, resource, nb in capabilities),
        expires,
        not_before,
        None,
        facts,
        tuple(map(cid_of_raw, proofs)),
    )
    # What was signed, and the signature, have done their part.
    return Ucan(claims, b"", b"", cid, b"")


def _nb(named: Iterable[tuple[str, bytes | None]] | None) -> dict[str, Any] | None:
    if named is None:
        return None
    return {name: None if raw is None else cid_of_raw(raw) for name, raw in named}


def _error(content: Content) -> DagError:
    _, code, text = content
    return ERROR_OF_CODE[code](text)
