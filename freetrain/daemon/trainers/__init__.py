"""What users hand in and write: read, judged, and kept apart, so that each can harm itself only."""
