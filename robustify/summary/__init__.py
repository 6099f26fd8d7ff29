"""The typed result of judging: `summary.json` as frozen models, and who may see which part of it."""
