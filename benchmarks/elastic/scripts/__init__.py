"""The training scripts that the benchmark runs."""
