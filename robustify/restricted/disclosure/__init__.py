"""Disclosure control for restricted sets: the released page, the record of releases, and rounded numbers."""
