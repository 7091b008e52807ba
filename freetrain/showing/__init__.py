"""Presentation of values to people, in terminals and on pages. Pure, and it imports nothing of the rest.

``words.py``       numbers, times, shares and texts as a reader expects them
``ticks.py``       round times for an axis
``palette.py``     the colours of all pages
``pages.py``       templates and the style that all HTML pages share
``ready_text.py``  an HTTP server of text that is ready, for the page and the metrics
"""
