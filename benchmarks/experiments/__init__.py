"""Experiments of the published systems on made-up trainings: what each gains over simpler rules.

``python -m benchmarks.experiments gadget`` (or smd, synergy, dltap) prints a table, which docs/evidence/systems.md
explains. ``comparing.py`` makes tables of figures, seed by seed; every other file is one system's experiment.
"""
