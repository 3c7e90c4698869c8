"""New models from models and files that are here: Modelfiles, templates, parameters, quantization."""
