"""`localllm app`: the page in a native window with the system's web view (pywebview, the extra `app`).

    app          runs the command: server, window and menu
    instance     one window per home: a second start shows the first window
    server       the server that is already running, or a new one
    view         the window; bridge.js extends the page beyond a browser's abilities
    menus        the items of its menus
    place        its position and size
    desktop      an entry in the desktop's menu

Uses HTTP only through `client`, and knows nothing of the page's content. Begin with `app`.
"""
