"""Sharing: which trainers compete at a look, and how the offered nodes are dealt among their owners. Pure."""
