"""Transcripts of sounds: what each kind of model is asked for one, and the answers to the parts of a long sound.

Knows no API's format. Begin with `parts`; the worker cuts the sound.
"""
