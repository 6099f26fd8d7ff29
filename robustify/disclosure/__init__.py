"""What may go out of a restricted run."""
