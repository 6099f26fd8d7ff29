"""Exports of a run to other tools, with the same prompts as the run."""
