"""The pure core: facts, problems, values, checks. No clock, no files, no processes, no SQL, no torch."""
