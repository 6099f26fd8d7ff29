"""A model as judge of answers."""
