"""The loop: observe → decide → verify → act → record, the same live and in a replay."""
