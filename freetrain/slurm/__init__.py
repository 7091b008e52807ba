"""The only place that knows Slurm: what to ask, what its answers mean, how to tell it what to do."""
