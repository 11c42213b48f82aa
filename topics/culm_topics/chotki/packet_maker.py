"""Makes the packets of one source from a program's changes (reference 2.4, 3.2). Knows no Kafka.

`PacketMaker` resolves the names of a change, computes the operands against the known state with the source's
own changes that no epoch includes yet, and numbers the packets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from culm_models.chotki.errors import OwnIdMalformed
from culm_models.chotki.ids import OFFSET_BITS, OFFSET_MAX, SEQUENCE_MAX, ZERO_ID, Id
from culm_models.chotki.packets.live import LivePacket, read_live, write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import FIELD_LETTERS, ClassField, delta, outranks, write_class
from culm_models.chotki.rdx.diff import counter_sum, natural_sum
from culm_models.chotki.rdx.first import EMPTY_STAMP, FIRST_LETTERS
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import pack_uint
from culm_topics.chotki.changes import (
    Change,
    Edit,
    EditClass,
    FromText,
    Name,
    NewClass,
    NewObject,
    Plus,
)
from culm_topics.chotki.errors import (
    ClassRefused,
    FieldUnknown,
    NameTaken,
    ObjectUnknown,
    RevisionsExhausted,
    ValueRefused,
)
from culm_topics.chotki.objects import (
    NAMES_OBJECT,
    NAMES_PLACE,
    ChotkiClass,
    FieldSource,
    Objects,
    Place,
)
from culm_topics.chotki.own_fields import OwnFields
from culm_topics.chotki.records import MAX_PACKET_BYTES
from culm_topics.chotki.values import value_from_text, write_value

FIELD_TYPES: Final = "".join(sorted(FIELD_LETTERS - set("COY")))
"""The possible types of a class's field."""


class OwnPacket(NamedTuple):
    """A packet of the source, and the progress of the source that it builds on."""

    id: Id
    after: int
    packet: bytes


class Made(NamedTuple):
    """Result of a change: the ID of the new class or object, else of the packet.

    None, without packets, if the change has no effect.
    """

    id: Id | None
    packets: list[OwnPacket]


class PacketMaker:
    """Makes the packets of one source.

    `last` is the last progress that the source ever issued, or None: its first packet then is its own object,
    which contains its `name`. `after` is the progress up to which its packets count without a gap.
    """

    def __init__(
        self, src: int, known: FieldSource, *, last: int | None = None, after: int = 0, name: str = ""
    ) -> None:
        self.src = src
        self._last = last
        self._after = after
        self._name = name
        self._own = OwnFields(known)

    @property
    def last(self) -> int | None:
        """The last progress that was issued."""
        return self._last

    @property
    def waiting(self) -> int:
        """Number of own packets that the known state may not contain yet."""
        return self._own.waiting

    @property
    def objects(self) -> Objects:
        """The known objects, own changes included."""
        return Objects(self._own)

    def make(self, changes: Sequence[Change]) -> list[Made]:
        """Return the packets of these changes, all or none; later changes know what earlier ones make.

        Raises `NameUnknown`, `NameTaken`, `ObjectUnknown`, `FieldUnknown`, `ClassRefused`, `ValueRefused`,
        `RevisionsExhausted`, and `TextMalformed` if a text is not a value of its field's type.
        """
        draft = _Draft(self.src, OwnFields(self._own), self._last, self._after)
        beginning: list[OwnPacket] = []
        if self._last is None and changes:
            beginning.append(draft.begin(self._name))
        made = [draft.make(change) for change in changes]
        if made:
            made[0] = Made(made[0].id, beginning + made[0].packets)
        for live in draft.lives:
            self._own.take(live)
        self._last, self._after = draft.last, draft.after
        return made

    def learn(self, live: LivePacket) -> None:
        """Add an earlier packet of the source, which the known state may not contain yet; in order."""
        self._own.take(live)

    def settle(self, pro: int) -> None:
        """Drop packets up to this progress, which the known state contains."""
        self._own.settle(pro)


class _Draft:
    """Packets that are being made; later ones know the effects of earlier ones."""

    def __init__(self, src: int, fields: OwnFields, last: int | None, after: int) -> None:
        self.last = last
        self.after = after
        self.lives: list[LivePacket] = []
        self._view = Objects(fields)
        self._src = src
        self._fields = fields

    def begin(self, name: str) -> OwnPacket:
        """Make the first packet of a source: its own object."""
        body = record("S", write_value("S", name)) + record("V") + record("S", EMPTY_STAMP)
        return self._packet("Y", ZERO_ID, body, seq=0)

    def make(self, change: Change) -> Made:
        made: list[OwnPacket] = []
        id: Id | None
        match change:
            case NewClass():
                id = self._new_class(change, made)
            case EditClass():
                id = self._edit_class(change, made)
            case NewObject():
                id = self._new_object(change, made)
            case Edit():
                id = self._edit(self._object(change.object), self._bare(change), made)
            case Name():
                id = self._give_name(change.name, self._existing(change.id), made)
        return Made(id, made)

    def _new_class(self, change: NewClass, made: list[OwnPacket]) -> Id:
        self._check_free(change.name)
        if not change.fields:
            raise ClassRefused("a class without fields has no objects")
        body = write_class(_class_fields(change.fields, 1))
        made.append(self._packet("C", ZERO_ID, body))
        id = made[-1].id
        if change.name is not None:
            self._give_name(change.name, id, made)
        return id

    def _edit_class(self, change: EditClass, made: list[OwnPacket]) -> Id | None:
        class_ = self._class(change.class_)
        places = [class_.place(name) for name in class_.fields]
        # The system's classes count from 0; in any class, a new field has the next number.
        shift = 1 if class_.id.src == 0 else 0
        first = max((position[0] for position in places if position is not None), default=0) + 1 - shift
        entries = _class_fields(change.add, first)
        if taken := [name for name in change.add if name in class_.fields]:
            raise ClassRefused(f"the class {class_.name} has a field {taken[0]!r} already")
        for old, new in change.rename.items():
            former = class_.fields.get(old)
            if former is None:
                raise FieldUnknown(f"the class {class_.name} has no field {old!r:.100}")
            if new in class_.fields or new in change.add:
                raise ClassRefused(f"the class {class_.name} has a field {new!r:.100} already")
            if new.encode() <= former.name.encode():
                raise ClassRefused(
                    f"{former.name!r} cannot be renamed to {new!r:.100}: of two names every replica takes "
                    "the one that is last in the order of bytes"
                )
            entries.append(ClassField(former.offset, former.letter, new, former.index))
        if not entries:
            return None
        made.append(self._packet("C", class_.id, write_class(entries)))
        return made[-1].id

    def _new_object(self, change: NewObject, made: list[OwnPacket]) -> Id:
        self._check_free(change.name)
        class_ = self._class(change.class_)
        operands = self._values(class_, change.values, None)
        letters: dict[int, str] = {}
        for name in class_.fields:
            number, letter = class_.place(name) or (0, "")
            letters.setdefault(number, letter)
        body, number = b"", 1
        while number in letters:
            position = (number, letters[number])
            least = EMPTY_STAMP if position[1] in FIRST_LETTERS else b""
            body += record(position[1], operands.pop(position, least))
            number += 1
        if not body:
            raise ClassRefused(f"the class {class_.name} has no first field: an object must have one")
        made.append(self._packet("O", class_.id, body))
        id = made[-1].id
        # An O cannot express numbers after a hole, nor a second type under one number.
        self._edit(id, operands, made)
        if change.name is not None:
            self._give_name(change.name, id, made)
        return id

    def _bare(self, change: Edit) -> dict[Place, bytes]:
        id = self._object(change.object)
        fields = self._fields.fields(id)
        class_id = self._view.class_id_of(id)
        class_ = None if class_id is None else self._view.class_of(class_id)
        if class_ is None:
            raise ObjectUnknown(f"the class of {id} is not there, so its fields have no names")
        return self._values(class_, change.values, fields)

    def _values(
        self, class_: ChotkiClass, values: Mapping[str, Any], present: Mapping[Place, bytes] | None
    ) -> dict[Place, bytes]:
        """Return the operands that turn the present values into these; `present` is None for a new object."""
        operands = {}
        for name, value in values.items():
            position = class_.place(name)
            if position is None:
                known = ", ".join(class_.fields) or "none"
                raise FieldUnknown(f"the class {class_.name} has no field {name!r:.100}; it has {known}")
            letter, old = position[1], (present or {}).get(position, b"")
            if value is None and not old:
                continue  # as it was read: never written
            meant = self._reference(value) if letter == "R" and isinstance(value, FromText) else value
            new = _bare_value(letter, meant, old, name)
            # A first value has revision 0; only N and Z name their source.
            as_it_is = present is None and letter not in "NZ"
            operand = new if as_it_is else delta(letter, old, new, src=self._src)
            if operand and not outranks(letter, operand, old):
                raise RevisionsExhausted(f"{name} has the highest revision there is: it cannot be changed")
            if operand:
                operands[position] = operand
            elif letter == "N" and natural_sum(new) < natural_sum(old):
                raise ValueRefused(f"{name}: an N only grows, and it is {natural_sum(old)} already")
        return operands

    def _reference(self, value: FromText) -> FromText | Id:
        """Return the ID with a global name, or else the text, which must be an ID."""
        return self._view.named(value.text) or value

    def _edit(self, id: Id, operands: Mapping[Place, bytes], made: list[OwnPacket]) -> Id | None:
        if not operands:
            return None
        body = b"".join(
            record("f", pack_uint(number)) + record(letter, operand)
            for (number, letter), operand in sorted(operands.items())
        )
        made.append(self._packet("E", id, body))
        return made[-1].id

    def _give_name(self, name: str, id: Id, made: list[OwnPacket]) -> Id | None:
        try:
            operand = self._fields.names().operand(name, id)
        except UnicodeEncodeError as error:
            raise ValueRefused(f"{name!r:.100} is no text that can be a name") from error
        return self._edit(NAMES_OBJECT, {NAMES_PLACE: operand} if operand else {}, made)

    def _check_free(self, name: str | None) -> None:
        if name is not None and (taken := self._view.named(name)) is not None:
            raise NameTaken(f"the name {name!r} is that of {taken} already")

    def _existing(self, name: Id | str) -> Id:
        id = self._view.resolve(name)
        if not self._fields.fields(id):
            raise ObjectUnknown(f"there is no object and no class {name}")
        return id

    def _object(self, name: Id | str) -> Id:
        id = self._view.resolve(name)
        if self._view.class_id_of(id) is None:
            raise ObjectUnknown(f"there is no object {name}")
        return id

    def _class(self, name: Id | str) -> ChotkiClass:
        class_ = self._view.class_of(self._view.resolve(name))
        if class_ is None:
            raise ObjectUnknown(f"there is no class {name}")
        return class_

    def _packet(self, letter: str, ref: Id, body: bytes, *, seq: int | None = None) -> OwnPacket:
        if seq is None:
            assert self.last is not None, "a source begins with its own object"
            seq = (self.last >> OFFSET_BITS) + 1
        if seq > SEQUENCE_MAX:
            raise OwnIdMalformed("the source has no further ids")
        id = Id.make(self._src, seq)
        packet = write_live(letter, id, ref, body)
        if len(packet) > MAX_PACKET_BYTES:
            raise ValueRefused(f"a change of {len(packet)} bytes, where {MAX_PACKET_BYTES} is the most")
        live = read_live(parse(packet), packet)
        made = OwnPacket(id, self.after, packet)
        self.lives.append(live)
        self._fields.take(live)
        self.last = self.after = live.entry.pro
        return made


def _class_fields(fields: Mapping[str, str], first: int) -> list[ClassField]:
    entries = []
    for offset, (name, letter) in enumerate(fields.items(), first):
        if len(letter) != 1 or letter not in FIELD_TYPES:
            raise ClassRefused(f"the field {name!r:.100} has type {letter!r:.20}; types are {FIELD_TYPES}")
        if not name or name == "_ref" or offset > OFFSET_MAX:
            raise ClassRefused(f"no field can have the name {name!r:.100} and the number {offset}")
        entries.append(ClassField(offset, letter, name))
    return entries


def _bare_value(letter: str, value: object, old: bytes, name: str) -> bytes:
    """Return the whole new value of a field, unstamped."""
    if isinstance(value, FromText):
        return value_from_text(letter, value.text, old)
    if isinstance(value, Plus):
        present = _SUMS.get(letter)
        if present is None:
            raise ValueRefused(f"{name}: only an N or a Z can be added to")
        return write_value(letter, present(old) + value.number)
    try:
        return write_value(letter, value, old)
    except ValueRefused as error:
        raise ValueRefused(f"{name}: {error}") from error


_SUMS: Final[Mapping[str, Callable[[bytes], int]]] = {"N": natural_sum, "Z": counter_sum}
