"""Choices-only screen: votes, ranking, consensus, and the flags expected by chance."""
