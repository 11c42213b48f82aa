"""The content of a block: read before the shuffle, and used after it.

Decoding, canonical form, fields and signatures depend on a block alone, and take nearly all of the time. They
are evaluated once, by as many tasks as there are partitions. Only a short list is sent through the shuffle
and stored: the links of a node, or the relevant claims of a UCAN; or the code with which it was refused.
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
from culm_models.dag.validation_rules import ValidationRules
from culm_streaming.dag.rows import Content

APPEND, JOIN, PUBLISH, UCAN, REFUSED_NODE, REFUSED_UCAN = range(6)
_MAX_VERIFIED: Final = 65_536


class VerifiedUcans:
    """CIDs of the UCANs whose signatures were verified most recently, because delegations recur."""

    def __init__(self, max_cids: int = _MAX_VERIFIED) -> None:
        self._max_cids = max_cids
        self._cids: OrderedDict[bytes, None] = OrderedDict()

    def is_signed(self, ucan: Ucan) -> bool:
        """Whether the issuer signed the UCAN."""
        raw = ucan.cid.raw
        if raw in self._cids:
            self._cids.move_to_end(raw)
            return True
        try:
            verify_signature(ucan)
        except UcanSignature:
            return False
        self._cids[raw] = None
        if len(self._cids) > self._max_cids:
            self._cids.popitem(last=False)
        return True


def common_content(data: bytes, settings: ValidationRules) -> Content | None:
    """Read an append of the usual form, faster than `read_content`; returns None for all other blocks."""
    bounds = settings.bounds
    append = common_append(data) if len(data) <= bounds.node else None
    if append is None or len(append[1]) > bounds.shards:
        return None
    return APPEND, *append


def read_content(
    cid: Cid, data: bytes, settings: ValidationRules, verified: VerifiedUcans, received: int = 0
) -> Content:
    """Read a block of `dag.nodes` or `dag.publishes` whose hash was checked; refusals are content as well.

    `received`: the time of receipt of a publish (seconds).
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
    """Whether a refused block is a node; other blocks may be read as a proof."""
    try:
        value = decode_dag_cbor(data)
    except DagError:
        return False
    return isinstance(value, dict) and "change" in value


def published_id(data: bytes) -> object:
    """Return the id of a publish, of whatever type; None if the bytes are not a publish."""
    try:
        value = decode_dag_cbor(data)
    except DagError:
        return None
    change = value.get("change") if isinstance(value, dict) else None
    is_publish = isinstance(change, dict) and change.get("type") == "publish"
    return change.get("id", b"") if is_publish and isinstance(change, dict) else None


def _of_node(node: ReplicaNode, settings: ValidationRules, verified: VerifiedUcans, received: int) -> Content:
    change = node.change
    prior = None if node.prior is None else node.prior.raw
    if isinstance(change, AppendChange):
        return APPEND, prior, [shard.raw for shard in change.shards]
    if isinstance(change, JoinChange):
        return JOIN, prior, [fork.raw for fork in change.forks]
    leaf = change.proof
    # A wrong signature is refused on admission, because other rules have precedence.
    is_signed = verified.is_signed(leaf)
    is_good = is_signed and is_authorised_alone(node.prior, change, received, settings)
    claims = leaf.claims
    revoked = revoked_by(claims) if claims.facts and claims.issuer == did_key(change.id) else ()
    shard = None if change.shard is None else change.shard.raw
    named = (change.id, change.link.raw, change.origin.raw, shard)
    return PUBLISH, prior, named, leaf.cid.raw, _of_claims(claims, revoked), is_signed, is_good


def _of_claims(claims: Claims, revoked: Iterable[Cid]) -> Sequence[Any]:
    """Return the relevant parts of claims: links in capabilities, and revocations by the id itself."""
    return (
        claims.version,
        claims.issuer,
        claims.audience,
        [
            (
                capability.can,
                capability.resource,
                None if capability.nb is None else [(n, _raw(v)) for n, v in capability.nb.items()],
            )
            for capability in claims.capabilities
        ],
        claims.expires,
        claims.not_before,
        [proof.raw for proof in claims.proofs],
        [cid.raw for cid in revoked],
    )


def _raw(value: Any) -> bytes | None:
    return value.raw if isinstance(value, Cid) else None


def cid_of_raw(raw: bytes) -> Cid:
    """Return the CID of bytes that were the bytes of a CID before."""
    return common_cid(raw) or cid_from_bytes(raw)


def node_of(cid: Cid, content: Content) -> ReplicaNode:
    """Return the node that was read, without its bytes. Raises the error with which it was refused."""
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
    """Whether the proof of a node that was read is signed, if it has one."""
    return content[0] != PUBLISH or bool(content[5])


def is_authorised(content: Content) -> bool:
    """Whether the proof of a node that was read authorises it alone, at its time of receipt."""
    return content[0] == PUBLISH and bool(content[6])


def ucan_of(cid: Cid, content: Content) -> Ucan | DagError:
    """Return the UCAN that was read, without its bytes, or the error with which it was refused."""
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
    # The signed bytes and the signature are not needed any more.
    return Ucan(claims, b"", b"", cid, b"")


def _nb(named: Iterable[tuple[str, bytes | None]] | None) -> dict[str, Any] | None:
    if named is None:
        return None
    return {name: None if raw is None else cid_of_raw(raw) for name, raw in named}


def _error(content: Content) -> DagError:
    _, code, text = content
    return ERROR_OF_CODE[code](text)
