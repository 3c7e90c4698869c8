"""New models from models and files that are here: Modelfiles, templates, parameters, quantization.

Runs no llama.cpp in this process. Begin with `create`.
"""
