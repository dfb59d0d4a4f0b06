"""What analyses have in common while they run: checks, the start, chunks, failures and warnings."""
