"""Compose a benchmark: choose distractors from a pool of candidates, so that no cue gives the key away."""
