"""The numbers of SDS-R: when to ask for a missing message, when to answer, and who answers (reference 3.1).

`sha256` is the rule of js and of the specification: the first 8 bytes of SHA-256 as a big-endian number, and
products in full precision. `farmhash` is nim's: its standard hash of a string, taken as a signed number whose
size counts, and both factors of a product reduced first. The two spread the same message differently.
"""

from culm_models.sds.profiles import RepairHash


def request_offset_ms(
    rule: RepairHash, participant_id: str, message_id: str, t_min_ms: int, t_max_ms: int
) -> int:
    """How long after it was missed `participant_id` asks for the message: from t_min to below t_max."""
    raise NotImplementedError


def response_offset_ms(
    rule: RepairHash, participant_id: str, sender_id: str, message_id: str, t_max_ms: int
) -> int:
    """How long after a request `participant_id` answers: at once for the sender, else below t_max."""
    raise NotImplementedError


def in_response_group(
    rule: RepairHash, participant_id: str, sender_id: str, message_id: str, groups: int
) -> bool:
    """Whether `participant_id` is among those who answer for this message of `sender_id`."""
    raise NotImplementedError


def groups_by_js(participants: int) -> int:
    """Response groups as js counts them: one for each whole 128 participants, at least one."""
    raise NotImplementedError


def groups_by_specification(participants: int) -> int:
    """Response groups as the specification counts them: one for each 128 participants begun."""
    raise NotImplementedError
