"""Synergy (OSDI 2022): CPUs and memory of shared servers go where trainings get faster by them."""
