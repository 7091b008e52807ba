"""The trainer's directory on the shared file system: what its processes, the daemon and people read there."""
