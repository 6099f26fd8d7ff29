"""Composition of a benchmark: distractors are chosen from a pool of candidates, so that no cue gives the key away."""
