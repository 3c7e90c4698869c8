"""Documents that clients send: PDF, Office files, HTML and text become the text of a prompt, with marks of their pages.

Begin with `reading`: what is read once is kept by content. Strangers' files are parsed in `reading_child`, within
limits of the system, by the readers of `readers/`; `prompt_text` writes what a model sees. Pages that have no text are
shown as pictures, which the model's own worker renders. Knows no API's fields and no model.
"""
