"""The documentation that ships with the package, a Markdown page for each topic. `localllm help` and `/docs` show it.

`pages` reads them, `searching` ranks their sections. Knows no terminal and no HTTP. `fields.md` and `settings.md` are
generated; tests keep the commands, options and endpoints of all pages true. Begin with `pages`.
"""
