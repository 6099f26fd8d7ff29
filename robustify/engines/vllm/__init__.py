"""A model run here with vLLM, without a server."""
