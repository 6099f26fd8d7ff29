"""A run: its folder and its table of verdicts."""
