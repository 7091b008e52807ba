"""The report of a replay: one HTML file that a site can put before its management.

In comes a ``ReportInput``: the log, the study, and how it was replayed; out comes a page that needs no network
and no script. Templates (``*.j2``) hold the page's fixed words and its layout; all else is made here.

``page.py``             what a report is made of, what its figures rest on, and the page; runs side by side
``sentences.py``        headline, key figures, captions, remarks
``tables.py``           rows of text
``series.py``           numbers for the pictures
``pictures.py``         pictures, drawn with matplotlib, an extra of the installation
``ledger_page.py``      the page of ``freetrain ledger --report``, in the same style
"""

from __future__ import annotations

from freetrain.replay.report.page import ReplaySetting, ReportInput, render, render_comparison, write_page
from freetrain.replay.report.pictures import require_matplotlib

__all__ = ["ReplaySetting", "ReportInput", "render", "render_comparison", "require_matplotlib", "write_page"]
