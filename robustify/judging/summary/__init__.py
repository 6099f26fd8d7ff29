"""Typed result of judging: the content of `summary.json` as frozen models."""
