"""The web page that browsers get at `GET /`: its files, the endpoints that only it uses, and the documentation.

`files` serves the page under a policy that allows only its own scripts, `docs` the pages of `localllm/docs`. The
scripts are plain modules without a build step: begin with `main.js`. Knows nothing of models.

The design, by which `app.css` is written and new views are made:

- **Type** has five sizes: 12 px for dates and names, 13 for notes, figures and small buttons, 15 for text, 18 for
  headings, 24 for what a view begins with. Two weights, 400 and 600. Lines of text are at most 46 rem (about 70
  characters) long.
- **Surfaces**: a panel (frame and list of chats), a sheet on it (what is read), raised fields on that (code,
  buttons). One line colour, and lines only around what is typed into, around cards, and between rows of tables.
- **Colour**: one accent, for the one main action of a view, links and what is chosen; red only for what went wrong.
  Light and dark are the same variables. Contrast is at least 4.5 to 1.
- **Corners**: 8 px for controls, 12 for boxes, 20 for what is written (messages, the composer).
- **Space** in steps of a quarter rem: .25 within a control, .5 between controls, 1 between blocks, 2 before a
  heading.
- **Icons** are ours, lines of one weight on a grid of 20 (`icons.js`), each with a name for screen readers and a
  tooltip. What is done with a message appears with the pointer or the focus, and always on touch and under the last
  message.
- **Motion** takes 120 ms, only where something appears, and none for those who want none.
"""
