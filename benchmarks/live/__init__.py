"""What freetrain costs a site's jobs and what it gains, on a real Slurm beside the same without it."""
