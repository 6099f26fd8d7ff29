"""Foundations of every other room: errors, files, settings, texts, and Git."""
