"""Sources of guesses: texts in which an answer may repeat, draft models, and how often each was right lately.

Decides neither how many guesses a step computes (`scheduling/rows`) nor which are accepted (`proposals`): a guess
changes no answer. Begin with `guesser`.
"""
