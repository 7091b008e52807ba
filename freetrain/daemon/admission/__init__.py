"""Whether the daemon may lend: its settings, its rights, Slurm's layout, and other daemons."""
