"""The interactive chat: editor, conversation, slash commands, how answers are shown. Begin with `loop`."""
