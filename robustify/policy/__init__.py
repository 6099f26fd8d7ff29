"""Decide how a set is read, kept and written: public and restricted sets differ here alone."""
