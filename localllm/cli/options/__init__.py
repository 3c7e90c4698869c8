"""Names, types and help of every command's options. Bodies are in `cli/commands`.

Imports nothing that makes `--help` slow, and knows no command's effect. Begin with `common`.
"""
