"""Sweeps: many replays that differ in what they vary, told by one file, done side by side, and resumable."""
