"""Markdown on a terminal while it is still being written. Knows nothing of models, HTTP or the chat.

    text -> blocks.Document (feed, preview, flush) -> lines -> live.Live -> the terminal
              |- inline, table, highlight: the content of a block
              |- cells: columns, words, styles

A document returns finished lines, which are printed once, and a preview of the block that is still open. `Live`
writes only the difference between two previews, usually text added at the end, so nothing flickers.

markdown-it says what the lines of a block are and parses what is in them. Lists and quotes are read here, a line at a
time: it has no parser to continue. Why not rich: it renders whole texts, so each token would redraw the whole answer.
Begin with `blocks`.
"""
