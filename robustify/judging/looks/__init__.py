"""Points that a model won because options look like keys: conditional logits of its picks, a panel, and limits."""
