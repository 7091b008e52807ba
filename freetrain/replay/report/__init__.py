"""The report of a replay: one HTML file that a site can put before its management."""

from __future__ import annotations

from freetrain.replay.report.assumptions import Setting
from freetrain.replay.report.page import ReportInput, write_report
from freetrain.replay.report.svg import require_matplotlib

__all__ = ["ReportInput", "Setting", "require_matplotlib", "write_report"]
