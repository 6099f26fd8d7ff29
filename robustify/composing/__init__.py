"""Composition of a benchmark: distractors are chosen from a pool of candidates, so that no cue names the key."""
