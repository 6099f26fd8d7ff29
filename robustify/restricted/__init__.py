"""Restricted sets: `access` reads a set only if every requirement is met, and `disclosure` decides what is published."""
