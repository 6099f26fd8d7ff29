"""Grading by a judge model: prompts, calls, and parsers of its replies."""
