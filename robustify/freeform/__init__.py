"""Free response: questions without options, answers in words, graded by rules first and by a judge after them."""
