"""Composing a benchmark: distractors chosen from a pool of candidates, so that no cue names the key."""
