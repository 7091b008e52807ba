"""What the daemon tells: its status, its metrics, its log, systemd, and people who have to know."""
