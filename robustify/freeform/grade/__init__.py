"""Deterministic graders."""
