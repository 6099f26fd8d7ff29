"""Export runs to other tools, with the same prompts as in the run."""
