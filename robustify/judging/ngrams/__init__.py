"""Verbatim occurrences of items in text files."""
