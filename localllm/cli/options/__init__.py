"""Names, types and help of every command's options. Bodies are in `cli.commands`."""
