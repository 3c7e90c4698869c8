"""`localllm app`: the page in a window of its own, with the system's web view (pywebview, the extra `app`).

    app          from the command to the last window
    instance     one window for each home: a second start shows the first one
    server       the server that runs already, or one of the window's own
    view         the window; bridge.js is what the page gets beside a browser's
    menus        what its menu offers
    place        where it was, and how large
    desktop      an entry in the menu of the desktop

Knows HTTP by `client` only, and nothing of what the page shows.
"""
