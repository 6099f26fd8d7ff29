"""A run's splits in the formats of other tools: the same prompts as ours, or no export at all."""
