"""Phrases around tools: polite words, second questions, errors, and requests that no tool fits."""

from __future__ import annotations

import re
from typing import Any

from .data import read
from .grammar import Phrasings

_DATA = read(__name__)

NO_TOOL = "I have no tool for that, and as a tiny demo model I don't know."
POLITE = _DATA.phrasings("polite")
FOLLOW_UPS = _DATA.phrasings("follow_ups")
FOLLOW_UP_COMMANDS = _DATA.phrasings("follow_up_commands")
COMMAND = re.compile(r"(turn|play|open|search|remind) ")
ERRORS = "no internet|time out|service is down|access denied|not allowed|try again later|internal error|error {number}"
FAILED = ("That did not work: {error}.", "Sorry, that did not work: {error}.")
SUCCESS: tuple[Any, ...] = (
    {"status": "ok"},
    {"success": True},
    {"ok": True},
    {"result": "done"},
    {"status": "done"},
    {"status": "success"},
    "done",
    "ok",
    "success",
)

SMALL_TALK = (
    (
        Phrasings(
            train=(
                "[Hi|Hello|Hey|Good day|Hi there|Hello there|Hey there][|!|.]",
                "[Hi|Hello|Hey], [are you there|can we talk|I am new here|nice to meet you][|?|!]",
                "[Hi|Hello|Hey], my name is {name}",
                "[Hello|Hi] again[|!]",
            ),
            held_out=("Hey, hello there!", "Hello, I am {name}", "Hi, nice to talk to you"),
        ),
        ("Hello! How can I help you?",),
        ("hello", "hi"),
    ),
    (
        Phrasings(
            train=(
                "[Thanks|Thank you|Thanks a lot|Many thanks|Thank you very much|Thank you so much][|!|.]",
                "[Thanks|Thank you] for [the help|your help|that|everything][|!]",
                "[Great|Good|Perfect|Nice|Okay|Cool|Oh], [thanks|thank you][|!]",
                "That [helped|was helpful|is good], [thanks|thank you]",
            ),
            held_out=("Good, that was everything, thank you", "Oh, thanks for the help!", "Many thanks for that"),
        ),
        ("You are welcome!",),
        ("welcome",),
    ),
    (
        Phrasings(
            train=(
                "[Bye|Goodbye|Bye bye|See you|See you later|See you soon|Good night][|!|.]",
                "[I have to|I must] go[| now][|, bye]",
                "[Okay|Thanks|That is all], [bye|goodbye|see you][|!]",
            ),
            held_out=("Okay, I have to go, see you later", "Goodbye, that is all", "Bye for now!"),
        ),
        ("Goodbye! Have a nice day.",),
        ("goodbye", "bye"),
    ),
    (
        Phrasings(
            train=(
                "How are you[| today| doing][|?]",
                "[Hi|Hello|Hey], how are you[| today][|?]",
                "[How is it going|How do you feel|Are you well|Are you okay|How is your day][|?]",
            ),
            held_out=("Hello, how is it going today?", "Do you feel well today?"),
        ),
        ("I am fine, thank you! How are you?",),
        ("fine", "well"),
    ),
)
UNDOABLE = _DATA.phrasings("undoable")
WHICH_TOOLS = _DATA.phrasings("which_tools")
