"""Texts of values: what is understood, what is refused, and what the Go replica makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import TextMalformed, ValueMalformed
from culm_models.chotki.rdx import FIELD_LETTERS, check_value, merge, parse_text, print_text
from culm_models.chotki.rdx.first import elements
from tests.models.chotki.rdx_tables import TABLES


@pytest.mark.parametrize(
    ("letter", "text", "value"),
    [
        ("I", "-11", "3015"),
        ("I", "+007", "300e"),
        ("I", "-9223372036854775808", "30ffffffffffffffff"),
        ("F", "2.5", "300220"),
        ("F", "-0", "3001"),
        ("F", ".5e1", "300228"),
        ("F", "-inf", "30ff0f"),
        ("F", "NaN", "30fe1f000000000080"),
        ("R", "a-2-1", "300a000120"),
        ("R", "0-0", "30"),
        ("S", '"\\ud83d\\ude00\\u00e9"', "30f09f9880c3a9"),
        ("S", '"raw é\n"', "30726177 20c3a90a"),
        ("T", "", "30"),
        ("N", "5", "74023105"),
        ("N", "0", "740130"),
        ("Z", "-6", "6902300b"),
        ("V", "", ""),
        ("V", "a-1,0-3,a-0-5", "760400000030760 40a000010"),
        ("L", "69023004", "69023004"),
        ("O", "b-1", "0b000010"),
        ("E", " { } ", ""),
        ("E", '{ "b" , 2, 2,term}', "690230047302306274053 07465726d"),
        ("M", '{"ab":1,"a":"x",1:\nterm}', "69023002740530746572 6d7302306173023078730330616269023002"),
    ],
)
def test_these_are_understood(letter: str, text: str, value: str) -> None:
    parsed = parse_text(letter, text)
    check_value(letter, parsed)
    assert parsed.hex() == value.replace(" ", "")
    # A Z is printed in hex, an empty T as null, a float with six decimals.
    if letter not in "ZT":
        assert parse_text(letter, print_text(letter, parsed)) == parsed


def test_a_set_is_written_by_value_and_each_value_once() -> None:
    assert print_text("E", parse_text("E", '{"b", 2, 2, term, 1.5, a-1}')) == '{2,a-1,"b",term,1.500000}'
    assert parse_text("E", "{2, 1, 2}").hex() == "690230026902" + "3004"
    assert parse_text("E", '{2,"\\u0004"}') == parse_text("E", "{2}"), "one of two letters with one value"


def test_a_map_is_written_by_key_letter_and_key() -> None:
    assert print_text("M", parse_text("M", '{"ab":1, a:2, "a":3, 7:null}')) == '{7:null,"a":3,"ab":1,a:2}'


@pytest.mark.parametrize(
    ("letter", "text"),
    [
        ("I", ""),
        ("I", "1.0"),
        ("I", "9223372036854775808"),
        ("I", "-9223372036854775809"),
        ("I", "9" * 10_000),
        ("I", "1_0"),
        ("I", "١"),
        ("F", ""),
        ("F", "x"),
        ("F", "1.5x"),
        ("F", "1e999"),
        ("F", "0x10"),
        ("F", "1_0"),
        ("R", ""),
        ("R", "x"),
        ("R", "a-"),
        ("R", "a-1z"),
        ("R", "100000-1"),
        ("R", "1-2-3-4"),
        ("S", "plain"),
        ("S", '"'),
        ("S", '"a"b"'),
        ("S", '"\\x"'),
        ("S", '"\\"'),
        ("S", '"\\u12"'),
        ("S", '"\\ud800"'),
        ("S", '"\\ude00\\ud83d"'),
        ("S", '"\ud800"'),
        ("T", "\ud800"),
        ("N", "-1"),
        ("N", "+1"),
        ("N", "18446744073709551616"),
        ("Z", "x"),
        ("V", "a-1,"),
        ("V", "x"),
        ("L", "6"),
        ("L", "69 01"),
        ("O", "x"),
        ("C", "{}"),
        ("Q", ""),
        ("E", ""),
        ("E", "{"),
        ("E", "{1,}"),
        ("E", "{,}"),
        ("E", "{1 2}"),
        ("E", "{1:2}"),
        ("E", "[1]"),
        ("E", "{1}x"),
        ("E", "{{1}}"),
        ("E", "{-}"),
        ("E", '{"\\x"}'),
        ("E", "{1.2.3}"),
        ("M", "{1}"),
        ("M", "{1:}"),
        ("M", "{1:2,3}"),
        ("M", "{1,2}"),
        ("M", "{1:2:3:4}"),
        ("M", "{1:2,1:3}"),
        ("M", '{"a":{}}'),
    ],
)
def test_these_are_refused(letter: str, text: str) -> None:
    with pytest.raises(TextMalformed) as caught:
        parse_text(letter, text)
    assert caught.value.code == "chotki.rdx.text"
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("letter", "text", "value"),
    [
        ("F", "x", "30"),
        ("F", "", "30"),
        ("F", "2.5x", "300220"),
        ("R", "a-1z", "300a000010"),
        ("R", "100000-1", "30ffffffffffffffffffffffffffff0f00"),
        ("S", '"\\ud800"', "30"),
        ("V", "a-1", "76040a000010"),
        ("E", "{2,1,2}", "69023004690230026902 3004"),
        ("E", "{1e3,term}", parse_text("F", "1000").hex().replace("30", "660430", 1)),
        ("M", "{1:2,1:3}", "6902300269023004" + "6902300269023006"),
        ("E", "[1]", ""),
        ("M", "5", ""),
    ],
)
def test_go_takes_them_so(letter: str, text: str, value: str) -> None:
    parsed = parse_text(letter, text, compat=Compat.GO)
    assert parsed.hex() == value.replace(" ", "")
    check_value(letter, parsed)


@pytest.mark.parametrize(
    ("letter", "text"), [("I", "x"), ("N", "-1"), ("Z", ""), ("S", "plain"), ("I", "9" * 30)]
)
def test_go_gives_an_error_for_these_too(letter: str, text: str) -> None:
    with pytest.raises(TextMalformed):
        parse_text(letter, text, compat=Compat.GO)


@pytest.mark.parametrize(
    "row",
    [row for row in TABLES["text"] if "text" in row and row["text"] not in ("{term}", "{1.5}")],
    ids=lambda row: row["text"],
)
def test_by_default_a_text_is_refused_or_read_as_recorded(row: dict[str, str]) -> None:
    try:
        parsed = parse_text(row["type"], row["text"])
    except TextMalformed:
        return
    recorded = bytes.fromhex(row["tlv"])
    if row["type"] == "E":
        # The order alone is ours.
        assert {element[:4] for element in elements(parsed)} == {
            element[:4] for element in elements(recorded)
        }
    else:
        assert parsed == recorded


PIECES = [
    "{",
    "}",
    ",",
    ":",
    "[",
    '"',
    "\\",
    "u",
    "d800",
    "1",
    "2.5",
    "1e3",
    "a",
    "b-1",
    "-",
    "+",
    " ",
    "\n",
    "é",
    "\0",
]


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize("letter", [*sorted(FIELD_LETTERS), "Q"])
@given(text=st.text(max_size=20) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_a_value_or_refused(letter: str, compat: Compat, text: str) -> None:
    try:
        parsed = parse_text(letter, text, compat=compat)
    except TextMalformed:
        return
    if letter != "L":
        check_value(letter, parsed)
        assert merge(letter, [parsed]) == parsed
        print_text(letter, parsed)


@given(st.text())
def test_strings_come_back(text: str) -> None:
    value = b"0" + text.encode("utf-8", "ignore")
    assert parse_text("S", print_text("S", value)) == value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_come_back(number: int) -> None:
    assert print_text("I", parse_text("I", str(number))) == str(number)
    assert print_text("N", parse_text("N", str(abs(number)))) == str(abs(number))


def test_texts_of_many_parts_are_read_in_linear_time() -> None:
    many = 20_000
    assert len(parse_text("E", "{" + ",".join(map(str, range(many))) + "}")) > many
    for text in ("{" * many, '{"' + "\\" * many, "{1" + ",1" * many, "-" * many, '"' + "\\u" * many + '"'):
        for letter in "EMSR":
            with pytest.raises(TextMalformed):
                parse_text(letter, text)


def test_numbers_of_more_than_8_bytes_have_no_text() -> None:
    for letter, value in (("I", b"0" + bytes(9)), ("F", b"0" + bytes(9)), ("E", b"i\x0a0" + bytes(9))):
        with pytest.raises(ValueMalformed):
            print_text(letter, value)


@pytest.mark.parametrize(
    ("letter", "value", "text"),
    [
        ("T", "30", "null"),
        ("T", "30ff", "�"),
        ("S", "300001221f0a", '"\\u0000\\u0001\\"\\u001f\\n"'),
        ("Z", "690432020b0d", "690432020b0d"),
        ("C", "74073053004e616d6574073102560041636b74083104530041646472", "{S\0Name:V\0Ack,S\0Addr:null}"),
        ("M", "690331010173013069013073 0130", '{0:""}'),
        ("O", "01020304050607", "0-0"),
        ("F", "30ff0f", "-Inf"),
        ("F", "30fe0f", "+Inf"),
        ("N", "740a39ffffffffffffffff0074033201 0a", "0"),
        ("Q", "6162", "6162"),
        ("I", "", "0"),
    ],
)
def test_these_are_printed_so(letter: str, value: str, text: str) -> None:
    assert print_text(letter, bytes.fromhex(value)) == text
