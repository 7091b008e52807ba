"""The report of a replay: one HTML file that a site can put before its management."""

from __future__ import annotations

from freetrain.replay.report.page import ReplaySetting, ReportInput, write_report
from freetrain.replay.report.pictures import require_matplotlib

__all__ = ["ReplaySetting", "ReportInput", "require_matplotlib", "write_report"]
