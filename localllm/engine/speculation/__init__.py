"""Who guesses what comes next: texts in which an answer may occur again, and how often they were right lately."""
