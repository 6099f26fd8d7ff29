"""Free-response evaluation: open-ended questions, models' written answers, and grading by rules and by a judge model."""
