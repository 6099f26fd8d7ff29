"""Engine that runs a model on the workers of a Ray cluster."""
