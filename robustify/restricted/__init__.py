"""Restricted sets: requirements for reading them, and the protection of their text.

`access` reads a set only if every requirement is met. `disclosure` decides what may be published.
"""
