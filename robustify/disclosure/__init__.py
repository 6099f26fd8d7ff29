"""Decide what may leave a restricted set: one released page for a run, counts and whole percents for its data."""
