"""Points that a model gained because options look like keys: conditional logits of its picks, a panel, and limits."""
