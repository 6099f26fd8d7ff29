"""Items, the views in which they are asked, and the answers they get."""
