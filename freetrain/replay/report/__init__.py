"""The report of a replay: one HTML file that a site can put before its management."""

from __future__ import annotations

from freetrain.replay.report.page import ReportInput, Setting, write_report
from freetrain.replay.report.pictures import require_matplotlib

__all__ = ["ReportInput", "Setting", "require_matplotlib", "write_report"]
