"""Items, the views in which models see them, and the models' answers."""
