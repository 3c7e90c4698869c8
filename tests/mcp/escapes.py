"""What a tool answers that no terminal may obey; not in the tool server, which takes a second to import."""

ESCAPES = "\x1b[31mred\x1b]0;title\x07 \u202ereversed"
