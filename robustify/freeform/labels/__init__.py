"""Reading labels out of a judge's reply."""
