"""Foundations of all other packages: errors, files, settings, texts, and Git."""
