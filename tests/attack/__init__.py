"""Attacks on what a restricted run lets out; each has a control build on which it succeeds."""
