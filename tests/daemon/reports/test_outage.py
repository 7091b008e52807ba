from __future__ import annotations

import pytest

from freetrain.daemon.reports.look_log import Outage

WHY = "squeue does not answer."


def test_a_silence_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    quiet = Outage()
    with caplog.at_level("INFO"):
        quiet.ends()
        for _ in range(3):
            quiet.goes_on(WHY)
        assert quiet.failures == 3
        quiet.ends()
        quiet.ends()
    assert quiet.failures == 0
    assert [record.message for record in caplog.records] == [
        "squeue does not answer. Nothing is concluded from that, and nothing done.",
        "looks succeed again after 0 s",
    ]


def test_a_long_silence_is_said_again(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    moments_s = [0.0, 599.0, 601.0, 1200.0, 1202.0]
    monkeypatch.setattr("freetrain.daemon.reports.look_log.time.monotonic", iter(moments_s).__next__)
    quiet = Outage()
    for _ in moments_s:
        quiet.goes_on(WHY)
    assert [record.message for record in caplog.records][1:] == [
        "no look has succeeded for 601 s: squeue does not answer.",
        "no look has succeeded for 1202 s: squeue does not answer.",
    ]
