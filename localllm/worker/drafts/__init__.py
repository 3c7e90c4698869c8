"""Loads what guesses tokens beside the model: a draft model, the model's own NextN layers.

A draft that cannot be used costs the model nothing but a note saying why. Begin with `guess_sources`, the door;
`available` is about requests.
"""
