"""Loads what guesses tokens beside the model: a draft model, the model's own NextN layers."""
