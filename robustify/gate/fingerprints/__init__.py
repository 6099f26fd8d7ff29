"""Keyed fingerprints of registered sets."""
