"""Pictures and sounds on their way into a prompt: decoded in limited processes, encoded in another, kept by content.

Begin with `reader`, the door for prompts. A file becomes pixels or samples in `decoding_child`; these become a layout
(tokens and rows) and later the rows themselves in `encoder_child`, a process of its own beside the steps. Layouts and
rows are kept in memory (`kept_rows`) and on disk (`kvdisk.media_files`). Knows nothing of messages, templates or HTTP.
"""
