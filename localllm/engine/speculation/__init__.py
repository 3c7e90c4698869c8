"""Sources of guesses: texts in which an answer may repeat, draft models, and how often each was right lately."""
