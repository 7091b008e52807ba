"""What lending does to the order of a queue, on many simulated sites: Slurm is played by the shadow schedule."""
