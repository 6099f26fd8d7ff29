"""Readers of archives that hold the answers of many models: Every Eval Ever, OpenCompass, and OpenEval."""
