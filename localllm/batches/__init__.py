"""Files of many requests: checked line by line, sent in a good order, and answered in a file that survives a kill.

Here: the lines (`lines`, `prompted`), the order (`windows`), the results (`results`), the run (`running`); of batches
that clients made of a server, what is on disk (`stored`, `jobs`) and their course (`driving`). Not here: models,
servers, HTTP; who runs a batch says how a request is sent. Begin with `running.py`.
"""
