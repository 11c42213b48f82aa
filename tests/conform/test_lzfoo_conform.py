"""LZFoo through lines: the published example, history and window, and stable codes (reference 1.6)."""

from __future__ import annotations

from typing import Any


def test_the_published_example(talk: Any) -> None:
    assert talk.ok("lzfoo.decompress", bytes="036162638502") == {"bytes": b"abcbcbcb".hex()}
    assert talk.ok("lzfoo.decompress", bytes="8502", history=b"abc".hex()) == {"bytes": b"bcbcb".hex()}


def test_what_was_compressed_is_decompressed(talk: Any) -> None:
    plain, history = (b"another word, " * 20).hex(), b"another word".hex()
    compressed = talk.ok("lzfoo.compress", bytes=plain, window=64, history=history)["bytes"]
    assert len(compressed) < len(plain) // 5
    arguments = {"window": 64, "history": history, "length": 280}
    assert talk.ok("lzfoo.decompress", bytes=compressed, **arguments) == {"bytes": plain}


def test_what_does_not_pay_is_a_literal(talk: Any) -> None:
    assert talk.ok("lzfoo.compress", bytes="616263", window=100) == {"bytes": "03616263"}
    assert talk.ok("lzfoo.compress", bytes="", window=0) == {"bytes": ""}


def test_errors_have_codes(talk: Any) -> None:
    for data, arguments, code in (
        ("036162638504", {}, "lzfoo.offset"),
        ("036162638500", {}, "lzfoo.offset"),
        ("036162638502", {"window": 1}, "lzfoo.offset"),
        ("0361626385", {}, "lzfoo.truncated"),
        ("036162", {}, "lzfoo.truncated"),
        ("036162638502", {"length": 7}, "lzfoo.length"),
        ("036162638502", {"length": 9}, "lzfoo.length"),
        ("0161ff800000000000000001", {}, "lzfoo.length"),
    ):
        assert talk.code("lzfoo.decompress", bytes=data, **arguments) == code
