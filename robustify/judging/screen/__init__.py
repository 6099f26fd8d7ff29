"""Choices-only screen: votes, ranking, consensus, and the number of flags expected by chance."""
