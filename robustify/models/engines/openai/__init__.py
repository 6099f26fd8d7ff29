"""Engine for models behind an OpenAI-compatible server."""
