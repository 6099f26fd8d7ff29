"""Findings about a file of items that need no model: rules with codes, and tests over the whole file."""
