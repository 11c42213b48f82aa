"""Why something of DAG replication is refused: one class a code, and the code says it everywhere.

The classes follow the chapters of the rules: bytes, CIDs, CARs, shards and files; replica nodes; UCANs;
messages; the settings of a deployment.
"""

from typing import Final

from culm_models.errors import ModelError


class DagError(ModelError, code="dag"):
    """Bytes or facts that break a rule of DAG replication."""


# Bytes, CIDs, blocks, CARs and shards (reference 1.1 to 1.3, 3.5, 3.6).


class VarintMalformed(DagError, code="dag.varint"):
    """An unsigned varint that is cut, longer than 9 bytes, or not the shortest form."""


class CidMalformed(DagError, code="dag.bad_cid"):
    """A CID, in bytes or as text, that is not exactly one whole CID in its one form (R1)."""


class NonCanonical(DagError, code="dag.non_canonical"):
    """Bytes that are not the one DAG-CBOR encoding of a value (R2), or a value that has none."""


class DagJsonMalformed(DagError, code="dag.dag_json"):
    """A value that cannot be written as DAG-JSON, or JSON that is no DAG-JSON."""


class DagPbMalformed(DagError, code="dag.dag_pb"):
    """Bytes that are no dag-pb node, or no UnixFS message."""


class BlockTooLarge(DagError, code="dag.too_large"):
    """More bytes, roots or sections than the bounds of 3.4 allow."""


class HashMismatch(DagError, code="dag.hash"):
    """A block that does not match its CID, or whose CID has a digest cut short."""


class HashUnsupported(DagError, code="dag.hash_unsupported"):
    """A hash function that this deployment does not check."""


class CarHeaderMalformed(DagError, code="dag.car_header"):
    """A CAR without header, or with one that is not exactly roots and version."""


class CarVersionUnknown(DagError, code="dag.car_version"):
    """A CAR of another version than 1."""


class CarV2(DagError, code="dag.car_v2"):
    """The pragma of CARv2."""


class CarSectionMalformed(DagError, code="dag.car_section"):
    """A section of length 0, zero padding, or a cut last section."""


class ShardMalformed(DagError, code="dag.shard"):
    """A shard in DAG-CBOR that is not a map of blocks and perhaps roots."""


class BlockUnknown(DagError, code="dag.unknown_block"):
    """A block of a codec that is neither node, UCAN nor shard."""


class BlockMissing(DagError, code="dag.missing_block"):
    """A block that is needed here and was not given."""


class PathUnknown(DagError, code="dag.no_path"):
    """A path that leads nowhere."""


class EntityBytesMalformed(DagError, code="dag.entity_bytes"):
    """A range of a file's bytes that is not from:to."""


class DirectoryTooLarge(DagError, code="dag.directory_too_large"):
    """A directory that cannot be sharded (HAMT), since two of its names have the same hash."""


class Blocked(DagError, code="dag.blocked"):
    """A shard or a space that this deployment has blocked (R33)."""


# Replica nodes and what they are asked (reference 3.1, 3.2).


class NodeSchema(DagError, code="dag.schema"):
    """A map with other keys or kinds than its kind has."""


class ChangeUnknown(DagError, code="dag.unknown_change"):
    """A change that is neither append, join nor publish."""


class CidVersionUnfit(DagError, code="dag.cid_version"):
    """A link that must be a CIDv1 and is none."""


class PriorCodec(DagError, code="dag.prior_codec"):
    """A prior that is not DAG-CBOR with a whole sha2-256."""


class ForkCodec(DagError, code="dag.fork_codec"):
    """A fork that is not DAG-CBOR with a whole sha2-256."""


class OriginCodec(DagError, code="dag.origin_codec"):
    """An origin that is not DAG-CBOR with a whole sha2-256."""


class TooManyLinks(DagError, code="dag.too_many"):
    """More shards or forks than a node may name."""


class JoinPriorMissing(DagError, code="dag.join_prior_missing"):
    """A join without prior."""


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
    """A node whose prior or fork was refused for good (R25)."""


class ChainMixed(DagError, code="dag.mixed_chain"):
    """A publish below an append or a join, or the other way round (R11)."""


class PublishIdChanged(DagError, code="dag.id_changed"):
    """A publish whose prior publishes to another id."""


class NodeMissing(DagError, code="dag.missing"):
    """A node that is needed here and is not here."""


class NothingToJoin(DagError, code="dag.nothing_to_join"):
    """Fewer than two heads that diverge."""


# Why a UCAN does not authorise (reference 4.2 to 4.5).


class UcanVersionUnfit(DagError, code="dag.ucan_version"):
    """A version that is not accepted, or not in this form (R17)."""


class UcanKey(DagError, code="dag.key"):
    """An issuer or audience that is no Ed25519 did:key in its one spelling (R19)."""


class UcanSignature(DagError, code="dag.signature"):
    """A signature of another kind or length, or one that does not verify."""


class JwtMalformed(DagError, code="dag.jwt"):
    """A text that is no JWT in its one spelling (4.3)."""


class UcanAudience(DagError, code="dag.audience"):
    """An audience that may not hand this on."""


class UcanAbility(DagError, code="dag.ability"):
    """No capability has the ability."""


class UcanResource(DagError, code="dag.resource"):
    """No capability is for the resource."""


class UcanUnbound(DagError, code="dag.unbound"):
    """The leaf does not name what is published (R20)."""


class UcanAttenuation(DagError, code="dag.attenuation"):
    """A delegation that allows less than what is published."""


class UcanRootIssuer(DagError, code="dag.root_issuer"):
    """The chain ends at somebody else than the id."""


class UcanChainTooLong(DagError, code="dag.chain_too_long"):
    """More delegations on a path than allowed."""


class UcanRevoked(DagError, code="dag.revoked"):
    """A UCAN that the id has revoked before this place of the order (R32)."""


class UcanNotYetValid(DagError, code="dag.not_yet_valid"):
    """Received before a UCAN begins to be valid."""


class UcanExpired(DagError, code="dag.expired"):
    """Received after a UCAN has expired."""


class UcanProofMissing(DagError, code="dag.proof_missing"):
    """A proof is not here; with it there may be a good chain."""


# Messages, and what an end does with them (reference 6).


class DagFrameTooLarge(DagError, code="dag.frame_too_large"):
    """A frame longer than allowed."""


class DagUnexpected(DagError, code="dag.unexpected"):
    """A message out of its place: before HELLO, a second HELLO, or of a space that no HELLO named."""


class ShardSizeChanged(DagError, code="dag.size_changed"):
    """A shard that was offered or sent with two sizes."""


class ChunkOverlap(DagError, code="dag.overlap"):
    """A chunk that came before, of a shard whose transfer goes on."""


class DagUnasked(DagError, code="dag.unasked"):
    """More was sent without having been asked for than can be an accident."""


class SpoolFull(DagError, code="dag.spool_full"):
    """No room for a further shard that is on its way: later there may be (R34)."""


class SpaceNotAllowed(DagError, code="dag.not_allowed"):
    """Who asks may not do this in the space (R14)."""


class SpaceFull(DagError, code="dag.space_full"):
    """A space has all the bytes here that it may have: later there may be room (R33)."""


class WaitingFull(DagError, code="dag.waiting_full"):
    """No room for a further node that waits for its prior or its proofs: later there may be (3.4)."""


# The verdict settings of a deployment (R28).


class VerdictMalformed(DagError, code="dag.verdict"):
    """Verdict settings that are no canonical map of exactly their fields."""


class VerdictDiffers(DagError, code="dag.verdict_differs"):
    """A process whose verdict settings are not those of its deployment."""

    def __init__(self, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields
        """The fields that differ, a bound as `bounds.node`."""


class VerdictUnsupported(DagError, code="dag.verdict_unsupported"):
    """Verdict settings that this process cannot act on, as for want of a hash function."""


ERROR_OF_CODE: Final[dict[str, type[DagError]]] = {DagError.code: DagError} | {
    one.code: one for one in DagError.__subclasses__()
}
"""The class of each code, where a code alone was kept."""
