"""Replay: read a site's logs, run the loop over their holes, report what it would have gained."""
