"""One generation of workers that compute together: its process group, its connections, its messages."""
