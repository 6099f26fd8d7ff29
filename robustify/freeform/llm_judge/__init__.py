"""Grading by a judge model: prompts, calls, and parsers for its replies."""
