"""Log-probabilities of given answers, and the likeliest of them, in a format of our own: nothing is generated.

Begin with `handlers`.
"""
