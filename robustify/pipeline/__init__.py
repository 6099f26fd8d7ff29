"""Policies for reading, keeping, and writing public and restricted sets, which differ only here."""
