"""What the daemon is told while it runs: to look, to pause, to leave nodes alone."""
