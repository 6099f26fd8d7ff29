"""Engine for models on OpenAI-compatible servers."""
