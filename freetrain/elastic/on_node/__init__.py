"""What a fragment runs on its node: the agent, its workers, and scripts that are started anew at each change."""
