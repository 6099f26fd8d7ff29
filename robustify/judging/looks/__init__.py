"""Points that a model owes to options that look like keys: conditional logits of its picks, a panel, and limits."""
