"""The web page that browsers get at `GET /`: its files, the endpoints that only it uses, and the documentation.

`files` serves the page under a policy that allows only its own scripts, `docs` the pages of `localllm/docs`. The
scripts are plain modules without a build step: begin with `main.js`. Knows nothing of models.
"""
