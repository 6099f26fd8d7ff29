"""Marks of choices: labels such as A, (b), iii, or أ, in front of options and in text that names an option."""
