"""What the SDS demo prints at its end fits a terminal of 80 columns."""

from __future__ import annotations

import io

from rich.console import Console

from culm_infra.demo.sds.report import ChannelFigures, NetworkFigures, ParticipantFigures, SdsReport, tables

COLUMNS = 80


def test_no_header_and_no_value_is_cut_at_80_columns() -> None:
    participant = ParticipantFigures(
        name="general-hosted-12",
        kind="hosted",
        edge="east",
        wanted=11_366,
        held=11_366,
        lost=0,
        twice=0,
        differing=0,
        sent=11_366,
        acknowledged=11_366,
        gave_up=0,
        log_hash="ab" * 16,
        ephemeral=0,
        latencies_ms=[25_298.0, 144_893.0],
    )
    channel = ChannelFigures(
        channel_id="general",
        profile="waku",
        messages=11_366,
        log_hash="cd" * 16,
        logs_alike=True,
        stored=11_366,
        stored_twice=0,
        retries=1_234,
        repairs=1_234,
        syncs=12_345,
        broadcast_bytes=123_456_789,
        lines=["hosted-12: the tide is in"],
    )
    report = SdsReport([participant], [channel], NetworkFigures(1_000, 272, 99, 10.0), 0, 34.3, 18.7, 95.0)
    out = io.StringIO()
    console = Console(file=out, width=COLUMNS)
    for table in tables(report):
        console.print(table)
    shown = out.getvalue()
    assert "\u2026" not in shown
    for header in ("participant", "wrong", "acked", "p99", "messages", "repaired", "kB sent"):
        assert f" {header}" in shown
    assert "123,456" in shown
    assert "144.9" in shown
