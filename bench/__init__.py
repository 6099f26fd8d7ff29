"""Measurements run by `make bench`; no test depends on a clock."""
