"""Markdown on a terminal while it is still being written. Knows nothing of models, HTTP or the chat.

    text -> blocks.Document (feed, preview, flush) -> lines -> live.Live -> the terminal
              |- inline, table, highlight: what is in a block
              |- cells: columns, words, styles

A document gives finished lines, which are printed once, and a preview of the one block that is not finished. `Live`
writes what changed between two previews, which nearly always is what was added at the end: nothing flickers.

Why not rich: it draws a whole text or nothing, so that each new word would draw all of a long answer again; and a
parser of whole texts would have to be asked again for each word, on a processor that the model needs.
"""
