"""Errors of DAG replication: one class per code. Topics, metrics and messages use the same codes.

The classes follow the chapters of the rules: bytes, CIDs, CARs, shards and files; replica nodes; UCANs;
messages; the settings of a deployment.
"""

from typing import Final

from culm_models.errors import ModelError


class DagError(ModelError, code="dag"):
    """Base of all errors: data that breaks a rule of DAG replication."""


# Bytes, CIDs, blocks, CARs and shards (reference 1.1 to 1.3, 3.5, 3.6).


class VarintMalformed(DagError, code="dag.varint"):
    """An unsigned varint that is truncated, longer than 9 bytes, or not in the shortest form."""


class CidMalformed(DagError, code="dag.bad_cid"):
    """Bytes or text that are not exactly one CID in its canonical form (R1)."""


class NonCanonical(DagError, code="dag.non_canonical"):
    """Bytes that are not the canonical DAG-CBOR of a value (R2), or a value that DAG-CBOR cannot encode."""


class DagJsonMalformed(DagError, code="dag.dag_json"):
    """A value that cannot be written as DAG-JSON, or text that is not valid DAG-JSON."""


class DagPbMalformed(DagError, code="dag.dag_pb"):
    """A malformed dag-pb node or UnixFS message."""


class BlockTooLarge(DagError, code="dag.too_large"):
    """More bytes, roots or sections than the limits of 3.4 allow."""


class HashMismatch(DagError, code="dag.hash"):
    """A block that does not match its CID, or whose CID has a truncated digest."""


class HashUnsupported(DagError, code="dag.hash_unsupported"):
    """A hash function that this deployment does not check."""


class CarHeaderMalformed(DagError, code="dag.car_header"):
    """A CAR without a header, or with a header that is not exactly roots and version."""


class CarVersionUnknown(DagError, code="dag.car_version"):
    """A CAR whose version is not 1."""


class CarV2(DagError, code="dag.car_v2"):
    """A file that begins with the pragma of CARv2."""


class CarSectionMalformed(DagError, code="dag.car_section"):
    """A section of length 0, zero padding, or a truncated last section."""


class ShardMalformed(DagError, code="dag.shard"):
    """A shard in DAG-CBOR that is not a map of blocks and, optionally, roots."""


class BlockUnknown(DagError, code="dag.unknown_block"):
    """A block whose codec is not that of a node, UCAN or shard."""


class BlockMissing(DagError, code="dag.missing_block"):
    """A block that is needed and missing."""


class PathUnknown(DagError, code="dag.no_path"):
    """A path that does not exist in the DAG."""


class EntityBytesMalformed(DagError, code="dag.entity_bytes"):
    """A byte range of a file that is not of the form from:to."""


class DirectoryTooLarge(DagError, code="dag.directory_too_large"):
    """A directory that cannot be sharded (HAMT) because two of its names have the same hash."""


class Blocked(DagError, code="dag.blocked"):
    """A shard or a space that this deployment has blocked (R33)."""


# Replica nodes and operations on them (reference 3.1, 3.2).


class NodeSchema(DagError, code="dag.schema"):
    """A map whose keys or value types are not those of its type."""


class ChangeUnknown(DagError, code="dag.unknown_change"):
    """A change that is neither append, join nor publish."""


class CidVersionUnfit(DagError, code="dag.cid_version"):
    """A link that must be a CIDv1 and is not."""


class PriorCodec(DagError, code="dag.prior_codec"):
    """A prior whose CID is not DAG-CBOR with a whole sha2-256."""


class ForkCodec(DagError, code="dag.fork_codec"):
    """A fork whose CID is not DAG-CBOR with a whole sha2-256."""


class OriginCodec(DagError, code="dag.origin_codec"):
    """An origin whose CID is not DAG-CBOR with a whole sha2-256."""


class TooManyLinks(DagError, code="dag.too_many"):
    """More shards or forks than a node may name."""


class JoinPriorMissing(DagError, code="dag.join_prior_missing"):
    """A join without a prior."""


class JoinEmpty(DagError, code="dag.join_empty"):
    """A join without forks."""


class LinkRepeated(DagError, code="dag.duplicate"):
    """Shards or forks that name one CID twice."""


class LinksUnsorted(DagError, code="dag.unsorted"):
    """Shards or forks that do not ascend by their text."""


class JoinPriorOrder(DagError, code="dag.join_prior_order"):
    """A join whose prior is not smaller than every fork."""


class ProofForm(DagError, code="dag.proof_form"):
    """A proof in a form that a publish may not carry (R23)."""


class PriorRefused(DagError, code="dag.prior_refused"):
    """A node whose prior or fork was refused permanently (R25)."""


class ChainMixed(DagError, code="dag.mixed_chain"):
    """A publish whose chain contains an append or a join, or the reverse (R11)."""


class PublishIdChanged(DagError, code="dag.id_changed"):
    """A publish whose prior publishes to another id."""


class NodeMissing(DagError, code="dag.missing"):
    """A node that is needed and missing."""


class NothingToJoin(DagError, code="dag.nothing_to_join"):
    """A join of fewer than two diverging heads."""


# UCANs that do not authorise (reference 4.2 to 4.5).


class UcanVersionUnfit(DagError, code="dag.ucan_version"):
    """A version that is not accepted at all, or not in this form of UCAN (R17)."""


class UcanKey(DagError, code="dag.key"):
    """An issuer or audience that is not an Ed25519 did:key in canonical text (R19)."""


class UcanSignature(DagError, code="dag.signature"):
    """A signature of another type or length, or a signature that does not verify."""


class JwtMalformed(DagError, code="dag.jwt"):
    """A text that is not a JWT in its canonical form (4.3)."""


class UcanAudience(DagError, code="dag.audience"):
    """A UCAN that was issued to another audience than required."""


class UcanAbility(DagError, code="dag.ability"):
    """A UCAN in which no capability has the required ability."""


class UcanResource(DagError, code="dag.resource"):
    """A UCAN in which no capability is for the required resource."""


class UcanUnbound(DagError, code="dag.unbound"):
    """A leaf that does not name the published content (R20)."""


class UcanAttenuation(DagError, code="dag.attenuation"):
    """A delegation whose rights do not cover the publish."""


class UcanRootIssuer(DagError, code="dag.root_issuer"):
    """A chain whose root was not issued by the id."""


class UcanChainTooLong(DagError, code="dag.chain_too_long"):
    """A chain with more delegations than allowed."""


class UcanRevoked(DagError, code="dag.revoked"):
    """A UCAN that the id revoked before this position of the order (R32)."""


class UcanNotYetValid(DagError, code="dag.not_yet_valid"):
    """A UCAN that is not valid yet at the time of receipt."""


class UcanExpired(DagError, code="dag.expired"):
    """A UCAN that has expired at the time of receipt."""


class UcanProofMissing(DagError, code="dag.proof_missing"):
    """A missing proof, with which the chain might be valid."""


# Messages and their processing (reference 6).


class DagFrameTooLarge(DagError, code="dag.frame_too_large"):
    """A frame longer than allowed."""


class DagUnexpected(DagError, code="dag.unexpected"):
    """A message out of sequence: before HELLO, a second HELLO, or for a space that no HELLO named."""


class ShardSizeChanged(DagError, code="dag.size_changed"):
    """A shard that was offered or sent with two sizes."""


class ChunkOverlap(DagError, code="dag.overlap"):
    """A chunk received twice while the transfer of its shard goes on."""


class DagUnasked(DagError, code="dag.unasked"):
    """A peer that sent more unsolicited data than can be an accident."""


class DagSpoolFull(DagError, code="dag.spool_full"):
    """No spool capacity for a further shard in transfer; it may be sent later (R34)."""


class SpaceNotAllowed(DagError, code="dag.not_allowed"):
    """A request in a space that the peer has no right to (R14)."""


class SpaceFull(DagError, code="dag.space_full"):
    """A space that has reached its limit of bytes; there may be capacity later (R33)."""


class WaitingFull(DagError, code="dag.waiting_full"):
    """No capacity for a further node that waits for its prior or its proofs; it may be sent later (3.4)."""


# The validation rules of a deployment (R28).


class RulesMalformed(DagError, code="dag.verdict"):
    """Validation rules that are not a canonical map of exactly the required fields."""


class RulesDiffer(DagError, code="dag.verdict_differs"):
    """A process whose validation rules differ from those of its deployment."""

    def __init__(self, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields
        """The fields that differ, a limit by a name such as `bounds.node`."""


class RulesUnsupported(DagError, code="dag.verdict_unsupported"):
    """Validation rules that this process does not support, such as an unknown hash function."""


ERROR_OF_CODE: Final[dict[str, type[DagError]]] = {DagError.code: DagError} | {
    error.code: error for error in DagError.__subclasses__()
}
"""Class of each code, to restore an error from a stored code."""
