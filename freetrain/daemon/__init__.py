"""The daemon: the loop on a live Slurm."""
